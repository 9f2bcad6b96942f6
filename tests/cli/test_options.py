"""What the options of commands do, and what they refuse."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from densirank import Ranker, load
from densirank.cli.app import main
from densirank.parallel import recommend_all
from densirank.scores import Calibration

LOG = [(f"u{u}", f"i{i}") for u in range(25) for i in range(12) if (u * i) % 5 == 1 or u == i]
SMALL = ("--method", "wd-mf", "--set", "iterations=3", "--set", "dim=2")


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str


def densirank(*words: object) -> Done:
    out, err = io.StringIO(), io.StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["densirank", *map(str, words)])
        try:
            main()
        except SystemExit as end:
            status = int(end.code or 0)
    return Done(status, out.getvalue(), err.getvalue())


def refused(*words: object) -> str:
    done = densirank(*words)
    assert done.status == 2, done.err
    return done.err.strip().splitlines()[-1]


def rows(*words: object) -> Any:
    done = densirank(*words, "--json", "--device", "cpu")
    assert done.status == 0, done.err
    return json.loads(done.out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    lines = "".join(f"{user},{item}\n" for user, item in LOG)
    (folder / "log.csv").write_text(f"user_id,item_id\n{lines}")
    (folder / "titles.jsonl").write_text('{"item_id": "i1", "title": "Tea"}\n')
    assert densirank("fit", folder / "log.csv", "--out", folder / "model", *SMALL).status == 0
    return folder


@pytest.fixture(scope="module")
def ranker(folder: Path) -> Ranker:
    return load(folder / "model", "cpu")


def test_a_finished_model_is_replaced_only_if_asked(folder: Path, tmp_path: Path) -> None:
    model, log = tmp_path / "m", folder / "log.csv"
    fit = ("fit", log, "--out", model, *SMALL)
    assert densirank(*fit).status == 0
    before = (model / "model.json").read_bytes()
    said = f"error: {model} holds a model: pass --overwrite to replace it, or choose another --out"
    assert refused(*fit) == said
    assert refused("fit", log, "--out", model, "--budget", "2s") == said
    assert refused("fit", tmp_path / "missing.csv", "--out", model, *SMALL) == said
    assert refused("update", folder / "model", log, "--out", model) == said
    assert refused(*fit, "--resume", "--overwrite").endswith("are mutually exclusive")
    assert (model / "model.json").read_bytes() == before
    assert "nothing to resume" in densirank(*fit, "--resume").err
    assert densirank(*fit, "--overwrite", "--seed", 1).status == 0
    assert (model / "model.json").read_bytes() != before
    assert densirank("update", model, log, "--out", model, "--overwrite").status == 0


def read(path: Path) -> pl.DataFrame:
    if path.suffix == ".csv":
        return pl.read_csv(path)
    return pl.read_ndjson(path) if path.suffix == ".jsonl" else pl.read_parquet(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("who", [("--all",), ("--user", "u3", "--user", "u1")])
def test_the_suffix_is_the_format(
    folder: Path,
    ranker: Ranker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    suffix: str,
    who: tuple[str, ...],
) -> None:
    monkeypatch.setattr(recommend_all.Order, "part_users", 10)
    path = tmp_path / f"lists{suffix}"
    done = densirank("recommend", folder / "model", *who, "-k", 3, "--out", path)
    assert done.status == 0, done.err
    expected = ranker.recommend(None if who[0] == "--all" else ["u3", "u1"], 3)
    assert f"{expected.height} rows written to {path}" in done.err
    assert_frame_equal(read(path), expected, check_dtypes=False, rel_tol=1e-5, abs_tol=1e-6)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_suffix_may_be_in_capitals(folder: Path, tmp_path: Path) -> None:
    for who in (("--all",), ("--user", "u1")):
        path = tmp_path / f"{len(who)}.CSV"
        assert densirank("recommend", folder / "model", *who, "--out", path).status == 0
        assert pl.read_csv(path).columns[:2] == ["user_id", "item_id"]


@pytest.mark.parametrize("name", ["lists.xlsx", "lists", "lists.parquet.gz", "lists.json"])
def test_another_suffix_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    missing = tmp_path / "no model"
    for who in (("--all",), ("--user", "u1")):
        said = refused("recommend", missing, *who, "--out", tmp_path / name)
        assert said.endswith("the suffix must be one of .csv, .parquet, .jsonl")


def test_items_can_be_chosen_and_left_out(folder: Path, ranker: Ranker, tmp_path: Path) -> None:
    words = ("recommend", folder / "model", "--user", "u1", "--no-filter-seen")
    options = ("--items", "i1, i2,i3", "--exclude", "i2")
    found = rows(*words, *options)
    expected = ranker.recommend("u1", items=["i1", "i2", "i3"], exclude="i2", filter_seen=False)
    assert [row["item_id"] for row in found] == expected["item_id"].to_list()
    done = densirank(*words, "--items", "i1,zz,yy", "--exclude", "xx")
    assert done.status == 0
    assert "warning: 2 items are unknown and ignored in items: zz, yy" in done.err
    assert "warning: 1 item is unknown and ignored in exclude: xx" in done.err
    assert refused(*words, "--items", " , ").endswith("--items takes item ids separated by commas")
    path = tmp_path / "all.parquet"
    everyone = ("recommend", folder / "model", "--all", "--out", path, "--no-filter-seen")
    done = densirank(*everyone, "--items", "i1,i2,i3,zz", "--exclude", "i2")
    assert done.err.count("warning:") == 1
    expected = ranker.recommend(items=["i1", "i3"], filter_seen=False)
    assert_frame_equal(read(path), expected, rel_tol=1e-5, abs_tol=1e-6)


def test_lists_can_be_ranked_by_probability(folder: Path, tmp_path: Path) -> None:
    own = load(folder / "model", "cpu")
    own.calibration_ = Calibration(temperature=2.0, popularity_exponent=1.5)
    own.save(tmp_path / "model")
    words = ("recommend", tmp_path / "model", "--rank-by", "probability")
    expected = own.recommend(rank_by="probability")
    assert expected["item_id"].to_list() != own.recommend()["item_id"].to_list()
    assert [row["item_id"] for row in rows(*words, "--all")] == expected["item_id"].to_list()
    assert densirank(*words, "--all", "--out", tmp_path / "l.csv").status == 0
    assert read(tmp_path / "l.csv")["item_id"].to_list() == expected["item_id"].to_list()


def test_parts_of_other_options_are_not_kept(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.csv"
    orders = [
        recommend_all.Order(folder / "model", target, 3, False, "cpu", 10, **options)
        for options in (
            {},
            {"filter_seen": False},
            {"items": ["i1"]},
            {"exclude": ["i1"]},
            {"rank_by": "probability"},
        )
    ]
    for order, other in zip(orders, [*orders[1:], orders[0]], strict=True):
        parts = order.load()
        parts.claim_folder()
        parts.make(0)
        assert (parts.parts_done(), other.load().parts_done()) == (1, 0)


def test_titles_stand_beside_the_ids(folder: Path, tmp_path: Path) -> None:
    words = ("recommend", folder / "model", "--no-filter-seen", "--items", "i1,i2")
    options = ("--titles", folder / "titles.jsonl")
    found = rows(*words, *options, "--user", "u1")
    assert {row["item_id"]: row["title"] for row in found} == {"i1": "Tea", "i2": None}
    assert list(found[0])[:3] == ["user_id", "item_id", "title"]
    found = rows(*words, *options, "--history", "i3")
    assert {row["title"] for row in found} == {"Tea", None}
    path = tmp_path / "all.jsonl"
    assert densirank(*words, *options, "--all", "--out", path).status == 0
    assert read(path).columns[:3] == ["user_id", "item_id", "title"]
    assert set(read(path)["title"]) == {"Tea", None}


def test_unknown_people_are_refused_skipped_or_get_what_is_popular(folder: Path) -> None:
    words = ("recommend", folder / "model", "--user", "nobody", "--user", "u1", "-k", 2)
    assert refused(*words).endswith("does not know the user nobody")
    done = densirank(*words, "--unknown", "skip", "--json")
    assert "warning: 1 unknown user was skipped" in done.err
    assert {row["user_id"] for row in json.loads(done.out)} == {"u1"}
    found = rows(*words, "--unknown", "popular")
    assert [row["kind"] for row in found] == ["popular", "popular", "known", "known"]


def test_a_history_without_a_known_item_is_that_of_an_unknown_user(folder: Path) -> None:
    words = ("recommend", folder / "model", "--history", "zz,yy", "-k", 2)
    assert "none of the items" in refused(*words)
    found = rows(*words, "--unknown", "popular")
    assert [row["kind"] for row in found] == ["popular", "popular"]
    assert "user_id" not in found[0]
    assert rows(*words, "--unknown", "skip") == []
    done = densirank("recommend", folder / "model", "--history", "zz,i3")
    assert "warning: 1 item is unknown and ignored in --history" in done.err


def test_what_was_seen_can_be_a_hit(folder: Path, ranker: Ranker) -> None:
    words = ("evaluate", folder / "model", folder / "log.csv")
    assert rows(*words, "-k", 12)["recall@12"] == 0
    again = rows(*words, "-k", 12, "-k", 5, "--no-filter-seen")
    assert again["recall@12"] == 1
    assert again == ranker.evaluate(LOG, [12, 5], filter_seen=False)
    assert "never listed" in densirank(*words).err
    assert "never listed" not in densirank(*words, "--no-filter-seen").err
    assert next(iter(rows(*words))) == "recall@20"


def test_a_misspelt_column_or_command_is_guessed(folder: Path, tmp_path: Path) -> None:
    said = refused("fit", folder / "log.csv", "--out", tmp_path / "m", "--user-column", "user_ids")
    assert "there is no column 'user_ids'; did you mean 'user_id'? (the columns are:" in said
    assert "Did you mean 'evaluate'?" in densirank("evaluat").err


def test_a_shell_can_complete() -> None:
    done = densirank("--help")
    assert "--install-completion" in done.out
    assert "--show-completion" in done.out
