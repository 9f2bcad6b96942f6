from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.errors import InputError

Contents = Callable[[Interactions], dict[str, Any]]

RANDOM = np.random.default_rng(5)
TABLE = pl.DataFrame(
    {
        "noise": RANDOM.random(200),
        "user_id": [f"u{n}" for n in RANDOM.integers(0, 30, 200)],
        "item_id": RANDOM.integers(-5, 40, 200),
        "plays": RANDOM.integers(1, 6, 200).astype(float),
        "timestamp": RANDOM.integers(0, 50, 200),
    }
)


def write_inter(path: Path) -> None:
    types = {"user_id": "token", "item_id": "token", "plays": "float", "timestamp": "float"}
    renamed = TABLE.drop("noise").rename({name: f"{name}:{kind}" for name, kind in types.items()})
    renamed.write_csv(path, separator="\t")


WRITERS: dict[str, Callable[[Path], object]] = {
    "clicks.csv": TABLE.write_csv,
    "clicks.tsv": lambda path: TABLE.write_csv(path, separator="\t"),
    "clicks.inter": write_inter,
    "clicks.jsonl": TABLE.write_ndjson,
    "clicks.ndjson": TABLE.write_ndjson,
    "clicks.parquet": TABLE.write_parquet,
    "clicks.pq": TABLE.write_parquet,
}


@pytest.fixture
def expected() -> Interactions:
    """The table above by way of the plain constructor, which other tests check by itself."""
    return Interactions.from_pairs(
        TABLE["user_id"].to_list(),
        TABLE["item_id"].to_numpy(),
        TABLE["timestamp"].to_numpy(),
        TABLE["plays"].to_numpy(),
    )


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_gives_the_same(
    tmp_path: Path, name: str, expected: Interactions, contents: Contents
) -> None:
    path = tmp_path / name
    WRITERS[name](path)
    assert contents(read(path)) == contents(expected)
    if path.suffix not in (".parquet", ".pq"):
        packed = path.with_name(name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        assert contents(read(str(packed))) == contents(expected)


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        TABLE.lazy(),
        TABLE.with_columns(pl.col("user_id").cast(pl.Categorical)),
        TABLE.with_columns(pl.col("item_id").cast(pl.Int16), pl.col("timestamp").cast(pl.UInt64)),
        pd.DataFrame({name: TABLE[name].to_list() for name in TABLE.columns}),
        pd.DataFrame({name: TABLE[name].to_list() for name in TABLE.columns}).astype(
            {"user_id": "category"}
        ),
        pa.table({name: TABLE[name].to_list() for name in TABLE.columns}),
    ],
    ids=["polars", "lazy", "categorical", "small-types", "pandas", "pandas-category", "pyarrow"],
)
def test_every_frame_gives_the_same(frame: Any, expected: Interactions, contents: Contents) -> None:
    assert contents(read(frame)) == contents(expected)


def test_pandas_columns_may_have_numbers_for_names(contents: Contents) -> None:
    frame = pd.DataFrame([[1, 7], [2, 8]])
    by_number = read(frame, user_column="0", item_column="1")
    assert contents(by_number) == contents(Interactions.from_pairs([1, 2], [7, 8]))


def test_columns_can_be_named_or_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("who,what,user,plays\na,x,1,5\nb,y,2,3\n")
    data = read(path, user_column="who", item_column="what", weight_column="")
    assert list(data.pairs()) == [("a", "x"), ("b", "y")]
    assert data.weights is None
    assert read(path, item_column="what").user_ids.ids.tolist() == [1, 2]


def test_a_typed_header_can_be_named_without_its_type(tmp_path: Path) -> None:
    path = tmp_path / "log.inter"
    path.write_text("person:token\tthing:token\n1\t2\n")
    assert list(read(path, user_column="person", item_column="thing:token").pairs()) == [(1, 2)]


def test_without_a_header_columns_go_by_number(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("196\t242\t3\t20\n196\t302\t3\t10\n")
    data = read(path, format="tsv", header=False)
    assert list(data.pairs()) == [(196, 242), (196, 302)]
    assert data.timestamps is None
    timed = read(path, format="tsv", header=False, timestamp_column="4", weight_column="3")
    assert list(timed.pairs()) == [(196, 302), (196, 242)]
    assert timed.weights is not None


def test_csv_ids_are_integers_only_if_they_are_written_so(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('\ufeffuser,item\n007,-3\n"8",12\n')
    data = read(path)
    assert data.user_ids.ids.tolist() == ["007", "8"]
    assert data.item_ids.ids.tolist() == [-3, 12]


def test_late_text_among_numbers_makes_all_ids_text(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n" + "1,1\n" * 2000 + "x,1\n")
    assert read(path).user_ids.ids.tolist() == ["1", "x"]


def test_blank_lines_in_a_csv_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,2\n\n3,4\n\n")
    assert list(read(path).pairs()) == [(1, 2), (3, 4)]
    path.write_text("user,item,else\n1,2,a\n,,b\n")
    with pytest.raises(InputError, match="'user' has no value in data row 2"):
        read(path)


def test_names_with_wildcards_are_just_names(tmp_path: Path) -> None:
    for name in ("a[1]*.csv", "a[1]*.parquet"):
        WRITERS["clicks" + Path(name).suffix](tmp_path / name)
        assert read(tmp_path / name).n_users == TABLE["user_id"].n_unique()


@pytest.mark.parametrize(
    ("times", "microseconds"),
    [
        (["1970-01-03", "1970-01-02"], [86_400_000_000, 172_800_000_000]),
        (["1970-01-01T00:00:02Z", "1970-01-01T00:00:01Z"], [1_000_000, 2_000_000]),
        (["1970-01-01 00:00:02", "1970-01-01 00:00:01"], [1_000_000, 2_000_000]),
        ([dt.date(1970, 1, 3), dt.date(1970, 1, 2)], [86_400_000_000, 172_800_000_000]),
        ([dt.datetime(1970, 1, 1, 0, 2), dt.datetime(1970, 1, 1)], [0, 120_000_000]),
        (["2", "1"], [1, 2]),
        (["2.5", "1"], [1.0, 2.5]),
    ],
)
def test_dates_become_microseconds(times: list[Any], microseconds: list[float]) -> None:
    data = read(pl.DataFrame({"user": [1, 1], "item": ["late", "early"], "date": times}))
    assert data.ordered
    assert data.timestamps is not None
    assert data.timestamps.tolist() == microseconds
    assert [item for _, item in data.pairs()] == ["early", "late"]


@pytest.mark.parametrize("shown", ["03/04/2024", "3.4.2024", "03-04-2024 10:30", "11/12/24"])
@pytest.mark.parametrize("kind", ["csv", "jsonl", "frame"])
def test_dates_that_may_be_day_and_month_or_month_and_day_are_refused(
    tmp_path: Path, shown: str, kind: str
) -> None:
    frame = pl.DataFrame({"user": [1, 1], "item": [7, 8], "date": [shown, shown]})
    source: Any = frame if kind == "frame" else tmp_path / f"log.{kind}"
    if kind != "frame":
        (frame.write_csv if kind == "csv" else frame.write_ndjson)(source)
    with pytest.raises(InputError, match=r"'date' holds .*day and month or.*--timestamp-format"):
        read(source)
    assert not read(source, timestamp_column="").ordered


@pytest.mark.parametrize(
    ("format", "items"), [("%d/%m/%Y", ["early", "late"]), ("%m/%d/%Y", ["late", "early"])]
)
def test_a_format_says_how_dates_are_read(tmp_path: Path, format: str, items: list[str]) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item,date\n1,late,01/04/2024\n1,early,02/03/2024\n")
    data = read(path, timestamp_format=format)
    assert [item for _, item in data.pairs()] == items
    with pytest.raises(InputError, match=r"'01/04/2024' in data row 1, .* the form '%Y'"):
        read(path, timestamp_format="%Y")


def test_dates_of_which_one_tells_the_day_are_read() -> None:
    frame = {"user": [1, 1], "item": ["late", "early"], "date": ["03/04/2024", "31/03/2024"]}
    assert [item for _, item in read(pl.DataFrame(frame)).pairs()] == ["early", "late"]
    frame["date"] = ["03/04/2024", "03/31/2024"]
    with pytest.raises(InputError, match=r"'03/31/2024' in data row 2.*--timestamp-format"):
        read(pl.DataFrame(frame))


def test_a_format_without_text_dates_is_refused() -> None:
    frame = pl.DataFrame({"user": [1], "item": [2], "date": [3]})
    with pytest.raises(InputError, match="'date' holds Int64 values, not text"):
        read(frame, timestamp_format="%Y")
    with pytest.raises(InputError, match="timestamp_format needs a timestamp column"):
        read(frame, timestamp_format="%Y", timestamp_column="")
    with pytest.raises(InputError, match="timestamp_format cannot be used with pairs input"):
        read([(1, 2)], timestamp_format="%Y")


@pytest.mark.parametrize("name", ["rating", "overall", "Stars", "score"])
def test_ratings_are_no_weights_unless_somebody_says_so(name: str) -> None:
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [7, 8, 7], name: [5, 1, 4]})
    data = read(frame)
    assert data.weights is None
    assert data.reading is not None
    assert data.reading.unused == (name,)
    weighted = read(frame, weight_column=name)
    assert weighted.weights is not None
    assert weighted.weights.tolist() == [5, 1, 4]
    liked = read(frame, min_rating=4)
    assert (list(liked.pairs()), liked.weights) == ([(1, 7), (2, 7)], None)
    assert liked.item_ids.ids.tolist() == [7]
    both = read(frame, min_rating=4, weight_column=name)
    assert both.weights is not None
    assert both.weights.tolist() == [5, 4]


def test_a_least_rating_needs_ratings() -> None:
    frame = pl.DataFrame({"user": [1], "item": [7], "liking": [5]})
    with pytest.raises(InputError, match=r"needs a column of ratings.*--rating-column"):
        read(frame, min_rating=4)
    assert len(read(frame, min_rating=4, rating_column="liking")) == 1
    with pytest.raises(InputError, match=r"no row is left of those .* a rating of at least 6"):
        read(frame, min_rating=6, rating_column="liking")
    with pytest.raises(InputError, match=r"needs min_rating \(--min-rating\)"):
        read(frame, rating_column="liking")
    with pytest.raises(InputError, match="'liking' holds 'x' in data row 1"):
        read(frame.with_columns(liking=pl.lit("x")), min_rating=1, rating_column="liking")
    with pytest.raises(InputError, match="min_rating must be finite"):
        read(frame, min_rating=float("nan"), rating_column="liking")
    with pytest.raises(InputError, match="'liking' has no value in data row 1"):
        read(frame.with_columns(liking=pl.lit(float("nan"))), min_rating=1, rating_column="liking")


EVENTS = pl.DataFrame(
    {
        "user": [1, 1, 2, 2],
        "item": [7, 7, 8, 9],
        "event": ["view", "purchase", "cart", "view"],
        "quantity": [5, 5, 5, 5],
    }
)


def test_events_weigh_what_somebody_says(tmp_path: Path) -> None:
    weights = {"view": 1, "cart": 3, "purchase": 10}
    EVENTS.write_csv(tmp_path / "log.csv")
    for source in (EVENTS, tmp_path / "log.csv"):
        data = read(source, event_column="event", event_weights=weights)
        assert list(data.pairs()) == [(1, 7), (2, 8), (2, 9)]
        assert data.weights is not None
        assert data.weights.tolist() == [11, 3, 1]
        assert data.reading is not None
        assert data.reading.unused == ("quantity",)
        bought = read(source, event_column="event", event_weights=weights | {"view": 0})
        assert list(bought.pairs()) == [(1, 7), (2, 8)]
        assert bought.item_ids.ids.tolist() == [7, 8]
    numbered = EVENTS.with_columns(event=pl.Series([1, 2, 3, 1]))
    by_number = read(numbered, event_column="event", event_weights={"1": 1, "2": 10, "3": 3})
    assert (
        by_number.fingerprint
        == read(EVENTS, event_column="event", event_weights=weights).fingerprint
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"event_weights": {"view": 1, "cart": 3}}, "'purchase' in data row 2, and event_weights"),
        ({"event_weights": {"view": -1}}, "the weight of 'view' is -1; weights must be finite"),
        ({"event_weights": {"view": 0}}, "must name an event with a weight above 0"),
        ({"event_weights": {}}, "must name an event with a weight above 0"),
        ({}, "are given together or not at all"),
        (
            {"event_weights": {"view": 1}, "weight_column": "quantity"},
            "cannot be combined with weight_column",
        ),
    ],
)
def test_what_events_weigh_must_be_clear(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(EVENTS, event_column="event", **options)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", b"", "x.csv is empty"),
        ("x.csv", b"\n\n", "x.csv is empty"),
        ("x.csv", b"user,item\n", "x.csv: there are no interactions"),
        (
            "x.csv",
            b"who,item\n1,2\n",
            "no column has a usual name of the user .*'who', 'item'.*user_column",
        ),
        ("x.csv", b"user,what\n1,2\n", "no column has a usual name of the item .*item_column"),
        ("x.csv", b"user_id,userId,item\n1,2,3\n", "'user_id' and 'userId' could both be the user"),
        ("x.csv", b"user,item\n1,2\n,3\n", "'user' has no value in data row 2"),
        ("x.csv", b'user,item\n1,2\n3,""\n', "'item' has no value in data row 2"),
        ("x.csv", b"user,item\n1,2\n3\n", "'item' has no value in data row 2"),
        ("x.csv", b"user,item,plays\n1,2,3\n3,4,\n", "'plays' has no value in data row 2"),
        ("x.csv", b"user,item,time\n1,2,3\n3,4,\n", "'time' has no value in data row 2"),
        ("x.csv", b"user,item,plays\n1,2,3\n3,4,x\n", "'plays' holds 'x' in data row 2"),
        ("x.csv", b"user,item,time\n1,2,3\n3,4,soon\n", "'time' holds 'soon' in data row 2"),
        ("x.csv", b"user,item,time\n1,2,soon\n", "'time' holds 'soon' in data row 1.* ISO 8601"),
        ("x.csv", b"user,item,time\n1,2,1970-01-01\n1,3,3\n", "'time' holds '3' in data row 2"),
        ("x.csv", b"user,item,plays\n1,2,3\n3,4,-1\n", "x.csv: weights .* negative; row 2"),
        ("x.csv", b"user,item,plays\n1,2,3\n3,4,inf\n", "x.csv: weights .* finite; row 2"),
        ("x.csv", b"user,item\n1,2\n3,\xff\n", "x.csv, line 3 is not UTF-8"),
        ("x.csv", b"user,item\n1,2\n3,4,5\n", "x.csv, line 3: there are 3 fields, but 2 columns"),
        ("x.csv", "user,item\n1,2\n".encode("utf-16"), "x.csv, line 1 is not UTF-8"),
        ("x.csv", b'user,item\n1,"2\n3,4\n', "cannot be read as csv: .* unclosed quote"),
        ("x.tsv", b"user,item\n1,2\n", "no column has a usual name of the user .*'user,item'"),
        ("x.jsonl", b"", "x.jsonl is empty"),
        ("x.jsonl", b" \n", "x.jsonl is empty"),
        ("x.jsonl", b'{"user":1,"item":2}\n{"user":1,\n', "x.jsonl, line 2 is not a JSON"),
        ("x.jsonl", b'{"user":1,"item":"\xff"}\n', "x.jsonl, line 1 is not UTF-8"),
        ("x.jsonl", b'{"user":1,"item":2}\n{"user":1}\n', "'item' has no value in data row 2"),
        ("x.jsonl", b'{"user":1,"item":2.5}\n', "'item' holds Float64 values.* cast it first"),
        ("x.jsonl", b"[1, 2]\n", "x.jsonl, line 1 is not a JSON"),
        ("x.jsonl", b'{"user":1,"item":2}\n{"user":[1],"item":2}\n', "types of a field differ"),
        ("x.parquet", b"", "x.parquet is empty"),
        ("x.parquet", b"user,item\n1,2\n", "x.parquet is not a valid Parquet file"),
    ],
)
def test_bad_files_are_refused_by_name(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_the_same_column_cannot_be_both(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("user,item\n1,2\n")
    with pytest.raises(InputError, match="'user' cannot be both user and item"):
        read(path, item_column="user")
    with pytest.raises(InputError, match=r"no column 'nobody' .*'user', 'item'"):
        read(path, user_column="nobody")
    with pytest.raises(InputError, match="user column is required"):
        read(path, user_column="")


@pytest.mark.parametrize("damage", ["cut", "body"])
def test_damaged_parquet(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.parquet"
    TABLE.write_parquet(path)
    sound = path.read_bytes()
    half = len(sound) // 2
    path.write_bytes(
        sound[:half] if damage == "cut" else b"PAR1" + b"\xaa" * half + sound[half + 4 :]
    )
    with pytest.raises(InputError, match=r"x\.parquet is not a valid Parquet file"):
        read(path)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame(), "has no columns"),
        (pl.DataFrame({"user": [1.0], "item": [1]}), "'user' holds Float64 values"),
        (pl.DataFrame({"user": [True], "item": [1]}), "'user' holds Boolean values"),
        (pl.DataFrame({"user": [1, None], "item": [1, 2]}), "'user' has no value in data row 2"),
        (pl.DataFrame({"user": [None], "item": [1]}), "'user' has no value in data row 1"),
        (
            pl.DataFrame(
                {"user": [2**63], "item": [1]}, schema={"user": pl.UInt64, "item": pl.Int64}
            ),
            "'user' holds 9223372036854775808, which exceeds 64-bit",
        ),
        (
            pl.DataFrame({"user": [1], "item": [1], "plays": [True]}),
            "'plays' holds Boolean values where numbers",
        ),
        (
            pl.DataFrame({"user": [1], "item": [1], "time": [float("nan")]}),
            "the frame: timestamps must be finite; row 1",
        ),
        (pd.DataFrame({"user": [1, None], "item": [1, 2]}), "'user' has no value in data row 2"),
        (pd.DataFrame({"user": [1, "a"], "item": [1, 2]}), "mixture of types"),
    ],
)
def test_bad_frames_are_refused(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(frame)
