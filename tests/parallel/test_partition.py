"""A partition is the log as it is read at once, however it was cut."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import densirank
from densirank import Interactions
from densirank.data.columns import Columns
from densirank.errors import DensirankError, InputError, StorageError
from densirank.parallel import parquet_log, partitioning
from densirank.parallel.parquet_log import Log
from densirank.parallel.partition import MANIFEST, Partition
from densirank.parallel.partitioning import even_cuts, write_partition
from densirank.world import World

ANY = Columns()


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks and buckets, as a log larger than memory has them."""
    monkeypatch.setattr(parquet_log, "BLOCK_ROWS", 37)
    monkeypatch.setattr(partitioning, "BUCKET_ROWS", 23)


def a_log(kind: str, rows: int = 400, seed: int = 0) -> pl.DataFrame:
    """Few users and items, so that many pairs come more than once, in no order."""
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 30, rows), random.integers(-9, 12, rows)
    columns: dict[str, Any] = {"user_id": users * 10, "item_id": items}
    if "text" in kind:
        columns = {"user_id": [f"ü{u}" for u in users], "item_id": [f"i{i}" for i in items]}
    if "time" in kind:
        columns["timestamp"] = random.integers(0, 50, rows)
    if "date" in kind:
        columns["date"] = pl.Series(random.integers(0, 50, rows)).cast(pl.Datetime("ms"))
    if "weight" in kind:
        columns["weight"] = random.choice([0.0, 0.1, 0.7, 2.5], rows, p=[0.6, 0.2, 0.1, 0.1])
    return pl.DataFrame(columns)


def written(frame: pl.DataFrame, folder: Path, files: int = 1) -> Path:
    folder.mkdir()
    for number, (start, end) in enumerate(pairwise(np.linspace(0, frame.height, files + 1))):
        frame[int(start) : int(end)].write_parquet(folder / f"{number}.parquet")
    return folder


def assert_same(found: Interactions, expected: Interactions) -> None:
    assert found.user_ids == expected.user_ids
    assert found.item_ids == expected.item_ids
    assert found.ordered == expected.ordered
    for name in ("indptr", "items", "timestamps", "weights"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.dtype == other.dtype, name
            np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(
    "kind", ["integers", "text", "integers time", "text date weight", "integers weight"]
)
def test_the_parts_together_are_the_log_as_it_is_read(
    tmp_path: Path, kind: str, parts: int
) -> None:
    frame = a_log(kind)
    frame.write_parquet(tmp_path / "log.parquet")
    expected = densirank.read(tmp_path / "log.parquet")
    made = write_partition(
        Log.open(written(frame, tmp_path / "logs", files=3), ANY), tmp_path / "cut", parts
    )
    assert len(made.parts) == parts
    assert_same(made.whole(), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_every_process_reads_the_pairs_of_its_users_and_no_others(
    tmp_path: Path, size: int
) -> None:
    frame = a_log("text time weight")
    made = write_partition(Log.open(written(frame, tmp_path / "log"), ANY), tmp_path / "cut", 3)
    whole = made.whole()
    for rank in range(size):
        users = World(rank, size).own(made.n_users)
        own = (whole.users >= users.start) & (whole.users < users.stop)
        assert_same(made.among_all(users), whole.select(own))
        alone = made.only(users)
        assert alone.user_ids.ids.tolist() == whole.user_ids.ids[users.start : users.stop].tolist()
        assert list(alone.pairs()) == list(whole.select(own).pairs())


def test_as_many_processes_as_parts_share_no_file(tmp_path: Path) -> None:
    made = write_partition(
        Log.open(written(a_log("integers"), tmp_path / "log"), ANY), tmp_path / "cut", 4
    )
    for rank, part in enumerate(made.parts):
        own = World(rank, 4).own(made.n_users)
        assert own == range(part.first_user, part.first_user + part.users)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 2)), min_size=1),
    parts=st.integers(1, 8),
)
def test_the_latest_of_equal_pairs_is_kept_in_its_place_in_time(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]], parts: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    users, items, times = zip(*rows, strict=True)
    pl.DataFrame({"user": users, "item": items, "time": times}).write_parquet(folder / "a.parquet")
    made = write_partition(Log.open(folder, ANY), folder / "cut", parts)
    assert_same(made.whole(), Interactions.from_pairs(users, items, times))


@given(counts=st.lists(st.integers(1, 50), min_size=1), n=st.integers(1, 20))
def test_cuts_leave_no_run_much_longer_than_the_others(counts: list[int], n: int) -> None:
    cuts = even_cuts(np.array(counts), n)
    assert cuts[0] == 0
    assert cuts[-1] == len(counts)
    assert len(cuts) == n + 1
    lengths = [sum(counts[low:high]) for low, high in pairwise(cuts.tolist())]
    assert max(lengths) <= sum(counts) / n + max(counts) + 1


def test_columns_may_be_named_and_left_out_and_order_asserted(tmp_path: Path) -> None:
    frame = a_log("integers time weight").rename({"user_id": "who", "timestamp": "when"})
    path = written(frame, tmp_path / "log") / "0.parquet"
    wishes = Columns("who", None, "", "")
    made = write_partition(Log.open(path, wishes), tmp_path / "cut", 2, ordered=True)
    expected = densirank.read(
        path, user_column="who", timestamp_column="", weight_column="", ordered=True
    )
    assert_same(made.whole(), expected)


def test_a_partition_is_replaced_whole_and_leaves_nothing_behind(tmp_path: Path) -> None:
    out = tmp_path / "cut"
    first = write_partition(
        Log.open(written(a_log("text"), tmp_path / "a"), ANY), out, 5
    ).fingerprint
    (out / ".buckets-left").mkdir()
    (out / ".buckets-left" / "3").write_bytes(b"a run that was killed")
    frame = a_log("integers", seed=1)
    second = write_partition(Log.open(written(frame, tmp_path / "b"), ANY), out, 2)
    assert second.fingerprint != first
    assert len(list(out.iterdir())) == 2 + 2 + 1
    assert_same(Partition.open(out).whole(), densirank.read(frame))


@pytest.mark.parametrize("former", [False, True])
def test_a_log_with_a_bad_row_changes_nothing(tmp_path: Path, former: bool) -> None:
    out = tmp_path / "cut"
    if former:
        write_partition(Log.open(written(a_log("text"), tmp_path / "a"), ANY), out, 5)
    before = sorted(out.iterdir()) if former else None
    frame = a_log("integers weight").with_columns(
        pl.when(pl.int_range(pl.len()) == 111).then(-1.0).otherwise("weight").alias("weight")
    )
    with pytest.raises(InputError, match=r"after data row 111: .*negative; row 1 is"):
        write_partition(Log.open(written(frame, tmp_path / "b"), ANY), out, 2)
    assert (sorted(out.iterdir()) if out.exists() else None) == before


@pytest.mark.parametrize(
    ("frame", "sentence"),
    [
        ({"user": [1, None], "item": [1, 2]}, "'user' has no value in data row 2"),
        ({"user": ["a", "b"], "item": ["", "x"]}, "'item' has no value in data row 1"),
        ({"user": [1.5], "item": [1]}, "holds Float64 values, but ids are"),
        ({"user": [1], "item": [1], "time": ["2024-01-01"]}, "'time' holds text"),
        ({"user": [1], "item": [1], "time": [float("nan")]}, "timestamps must be finite"),
        ({"user": [1], "item": [1], "weight": [0]}, "every weight is zero"),
        ({"user": [1], "thing": [1]}, "no column has a usual name of the item"),
        ({"user": pl.Series([], dtype=pl.Int64), "item": []}, "there are no interactions"),
        ({"user": pl.Series([2**64 - 1], dtype=pl.UInt64), "item": [1]}, "exceeds 64-bit"),
    ],
)
def test_bad_logs_get_one_sentence_and_leave_nothing(
    tmp_path: Path, frame: dict[str, Any], sentence: str
) -> None:
    source = written(pl.DataFrame(frame), tmp_path / "log")
    with pytest.raises(InputError, match=sentence):
        write_partition(Log.open(source, ANY), tmp_path / "cut", 2)
    assert not (tmp_path / "cut").exists()


def test_files_that_disagree_are_named(tmp_path: Path) -> None:
    folder = written(a_log("integers"), tmp_path / "log")
    a_log("text").write_parquet(folder / "1.parquet")
    with pytest.raises(InputError, match=r"'user_id' holds String .*1\.parquet and Int64"):
        Log.open(folder, ANY)
    pl.DataFrame({"user_id": [1]}).write_parquet(folder / "1.parquet")
    with pytest.raises(InputError, match=r"1\.parquet has no column 'item_id'"):
        Log.open(folder, ANY)
    (folder / "1.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(InputError, match=r"1\.parquet is not a valid Parquet file"):
        Log.open(folder, ANY)


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_a_log_that_changes_while_it_is_read_is_found_out(tmp_path: Path, kind: str) -> None:
    source = written(a_log(kind), tmp_path / "log")
    log = Log.open(source, ANY)
    users, items = log.ids("user").encoder(), log.ids("item").encoder()
    added = {"integers": pl.lit(7), "text": pl.lit("somebody")}[kind]
    a_log(kind).with_columns(user_id=added).write_parquet(source / "0.parquet")
    with pytest.raises(InputError, match="has changed while it was read"):
        list(log.records(users, items))


def test_no_log_and_a_folder_of_somebody_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no Parquet file in"):
        Log.open(tmp_path, ANY)
    with pytest.raises(InputError, match="there is no file"):
        Log.open(tmp_path / "nowhere.parquet", ANY)
    source = Log.open(written(a_log("text"), tmp_path / "log"), ANY)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match=r"holds thesis\.txt"):
        write_partition(source, tmp_path / "work", 2)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["thesis.txt"]


def damage(how: str, made: Partition) -> None:
    part = made.folder / made.parts[1].file["name"]
    manifest = made.folder / MANIFEST
    if how == "missing":
        part.unlink()
    elif how == "corrupt":
        part.write_bytes(part.read_bytes()[:-1] + b"\7")
    elif how == "another":
        other = made.folder / made.parts[0].file["name"]
        part.write_bytes(other.read_bytes())
    elif how == "manifest":
        manifest.write_text(manifest.read_text().replace('"parts"', '"pasta"'))
    else:
        manifest.unlink()


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("missing", "is incomplete: part-00001.* is missing"),
        ("corrupt", "is damaged: it is not the file the partition was saved with"),
        ("another", "is damaged"),
        ("manifest", "does not describe a partition"),
        ("none", "holds no partition"),
    ],
)
def test_a_damaged_partition_is_refused_in_one_sentence(
    tmp_path: Path, how: str, sentence: str
) -> None:
    log = Log.open(written(a_log("integers"), tmp_path / "log"), ANY)
    made = write_partition(log, tmp_path / "cut", 3)
    damage(how, made)
    with pytest.raises(StorageError, match=sentence):
        Partition.open(made.folder).whole()
    if how in ("missing", "corrupt"):  # what others need is sound
        made.only(range(made.parts[0].users))


def test_a_partition_can_be_fitted_on_from_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from densirank.cli.app import app

    source = written(a_log("text time"), tmp_path / "log", files=2)
    cut, model = tmp_path / "cut", tmp_path / "model"
    runner = CliRunner()
    words = ["partition", str(source), "--out", str(cut), "--parts", "4"]
    done = runner.invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    assert "30 users, 21 items" in done.output
    assert "in 4 parts" in done.output
    runner.invoke(
        app,
        ["fit", str(cut), "--out", str(model), "--method", "popularity"],
        catch_exceptions=False,
    )
    assert densirank.load(model).interactions_.user_ids == Partition.open(cut).whole().user_ids
    with pytest.raises(DensirankError, match="there is no file"):
        runner.invoke(app, ["partition", "nowhere", "--out", str(cut)], catch_exceptions=False)
