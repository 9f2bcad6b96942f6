"""Records come back as they were kept, and what is damaged or foreign is refused in a sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densirank import METHODS
from densirank.data.interactions import Interactions
from densirank.errors import StorageError
from paper.per_user import read_per_user, write_per_user
from paper.provenance import checkout
from paper.records import (
    AblationRecord,
    CurveRecord,
    Record,
    Records,
    RunRecord,
    SearchRecord,
    SensitivityRecord,
    Trial,
    made_on,
)

MakeRun = Callable[..., RunRecord]
SHARED: dict[str, Any] = {
    "method": "wd-mf",
    "dataset": "elsewhere",
    "seed": 0,
    "settings": {"dim": 8, "max_norm": None, "iterations": 90},
    "train_fingerprint": "a",
    "versions": {"torch": "2"},
    "hardware": {"gpu": None},
}
TRIALS = [Trial({}, 0.1, 40, 2.0), Trial({"dim": 4}, 0.2, 70, 1.0), Trial({}, None, None, 1.0, "x")]
SEARCH = SearchRecord(**SHARED, trials=TRIALS, chosen=1)
CURVE = CurveRecord(**SHARED, test_fingerprint="b", points=[[1, 0.5, 0.1], [10, 2.5, 0.2]])


@pytest.mark.parametrize(
    "record", [SEARCH, replace(SEARCH, chosen=None), SensitivityRecord(**SHARED), CURVE]
)
def test_a_record_comes_back_as_it_was_kept(tmp_path: Path, record: Record) -> None:
    records = Records(tmp_path)
    assert records.find(type(record), "elsewhere", record.name) is None
    records.keep(record)
    assert records.find(type(record), "elsewhere", record.name) == record


def test_runs_of_a_method_are_found_by_seed(tmp_path: Path, make_run: MakeRun) -> None:
    records = Records(tmp_path)
    runs = [make_run(seed=seed) for seed in (2, 0, 1)]
    for run in [*runs, make_run("wd-mf-unclipped"), make_run(dataset="other", seed=5)]:
        records.keep(run)
    assert [run.seed for run in records.runs("elsewhere", "wd-mf")] == [0, 1, 2]
    assert records.runs("elsewhere", "wd") == []


def test_runs_with_other_settings_are_not_averaged(tmp_path: Path, make_run: MakeRun) -> None:
    records = Records(tmp_path)
    records.keep(make_run(seed=0))
    records.keep(make_run(seed=1, settings={"dim": 9}))
    with pytest.raises(StorageError, match=r"wd-mf on elsewhere .* different settings"):
        records.runs("elsewhere", "wd-mf")


def test_a_run_uses_the_chosen_settings_and_the_best_number_of_iterations() -> None:
    assert SEARCH.chosen_settings == {"dim": 4, "max_norm": None, "iterations": 70}
    assert replace(SEARCH, chosen=None).chosen_settings is None


def changed(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content | changes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda content: [content], "is no record of a run"),
        (changed(record="curve"), "is no record of a run"),
        (changed(format=2), "another format"),
        (changed(surplus=1), "lacks a field of a RunRecord, or has more"),
        (lambda content: {k: v for k, v in content.items() if k != "seed"}, "lacks a field"),
        (changed(seed="0"), "its seed cannot be '0'"),
        (changed(seconds=True), "its seconds cannot be True"),
        (changed(metrics=[]), "its metrics cannot be"),
        (changed(metrics={"ndcg@20": 0.1}), "lacks recall@20 or ndcg@20"),
        (changed(dataset="gowalla"), "is of wd-mf-seed0 on gowalla"),
        (changed(seed=1), "is of wd-mf-seed1 on elsewhere"),
    ],
)
def test_foreign_and_damaged_records_are_refused(
    tmp_path: Path, make_run: MakeRun, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    records = Records(tmp_path)
    path = records.keep(make_run())
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(StorageError, match=rf"wd-mf-seed0\.json.*{said}"):
        records.find(RunRecord, "elsewhere", "wd-mf-seed0")


def test_half_a_file_is_refused(tmp_path: Path, make_run: MakeRun) -> None:
    records = Records(tmp_path)
    path = records.keep(make_run())
    path.write_text(path.read_text()[:100])
    with pytest.raises(StorageError, match="no JSON"):
        records.runs("elsewhere", "wd-mf")


@pytest.mark.parametrize(
    ("record", "changes", "said"),
    [
        (SEARCH, {"chosen": 3}, "chose a trial that it does not hold"),
        (SEARCH, {"trials": [{"varied": {}}]}, "lacks a field of a Trial"),
        (CURVE, {"points": [[1, 2]]}, "three numbers"),
        (CURVE, {"points": [[1, 2, None]]}, "its points cannot be"),
    ],
)
def test_what_does_not_add_up_is_refused(
    tmp_path: Path, record: Record, changes: dict[str, Any], said: str
) -> None:
    records = Records(tmp_path)
    path = records.keep(record)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(StorageError, match=said):
        records.find(type(record), "elsewhere", record.name)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_run_on_other_data_than_the_sets_is_refused(
    tmp_path: Path, make_run: MakeRun, train: Any, part: str
) -> None:
    from densirank.data.datasets import PUBLIC_SETS

    marks = {
        "train_fingerprint": PUBLIC_SETS["tiny"].train.fingerprint,
        "test_fingerprint": PUBLIC_SETS["tiny"].test.fingerprint,
    }
    records = Records(tmp_path)
    records.keep(make_run(dataset="tiny", **marks))
    assert len(records.runs("tiny", "wd-mf")) == 1
    records.keep(make_run(dataset="tiny", **(marks | {f"{part}_fingerprint": "other"})))
    with pytest.raises(StorageError, match=f"another {part} part than tiny's"):
        records.runs("tiny", "wd-mf")


def test_a_record_of_the_pairs_alone_is_of_the_set_and_one_of_another_order_is_not(
    tmp_path: Path, make_run: MakeRun, train: Any
) -> None:
    from densirank.data.datasets import PUBLIC_SETS

    known = PUBLIC_SETS["tiny"]
    records = Records(tmp_path)
    for kept in ("pairs_fingerprint", "fingerprint"):
        marks = {
            f"{part}_fingerprint": getattr(getattr(known, part), kept) for part in ("train", "test")
        }
        records.keep(make_run(dataset="tiny", **marks))
        (run,) = records.runs("tiny", "wd-mf")
        assert made_on(run, train)
    shuffled = Interactions.from_pairs(train.users[::-1], train.items[::-1], ordered=True)
    assert shuffled.pairs_fingerprint == train.pairs_fingerprint
    assert not made_on(run, shuffled)
    records.keep(make_run(dataset="tiny", **marks | {"train_fingerprint": shuffled.fingerprint}))
    with pytest.raises(StorageError, match="another train part than tiny's"):
        records.runs("tiny", "wd-mf")


def test_records_from_before_the_commit_was_kept_load(tmp_path: Path, make_run: MakeRun) -> None:
    records = Records(tmp_path)
    new = make_run(commit="abc", clean=True)
    path = records.keep(new)
    assert records.find(RunRecord, "elsewhere", new.name) == new
    content = json.loads(path.read_text())
    del content["commit"], content["clean"]
    path.write_text(json.dumps(content))
    assert records.find(RunRecord, "elsewhere", new.name) == make_run()
    path.write_text(json.dumps(content | {"clean": "very"}))
    with pytest.raises(StorageError, match="its clean cannot be 'very'"):
        records.find(RunRecord, "elsewhere", new.name)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_the_commit_is_that_of_the_checkout_and_none_elsewhere(tmp_path: Path) -> None:
    assert checkout(tmp_path) == {"commit": None, "clean": None}
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    clean = checkout(tmp_path)
    assert len(clean["commit"]) == 40
    assert clean["clean"]
    (tmp_path / "more").write_text("")
    assert checkout(tmp_path) == clean | {"clean": False}


def test_metrics_of_users_come_back_in_single_precision(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    users = np.sort(rng.choice(10**9, 500, replace=False))
    per_user = {name: rng.random(500) for name in ("recall", "ndcg", "map")}
    write_per_user(tmp_path / "m.parquet", users, per_user)
    back_users, back = read_per_user(tmp_path / "m.parquet")
    assert back_users.tolist() == users.tolist()
    assert set(back) == {"recall", "ndcg"}
    for name, values in back.items():
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, per_user[name].astype(np.float32))


def test_other_files_hold_no_metrics_of_users(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 but no more")
    pyarrow.parquet.write_table(pa.table({"a": [1]}), tmp_path / "foreign.parquet")
    for name in ("damaged", "foreign", "absent"):
        with pytest.raises(StorageError, match=rf"{name}\.parquet holds no metrics of users"):
            read_per_user(tmp_path / f"{name}.parquet")


KINDS = (RunRecord, CurveRecord, SearchRecord, SensitivityRecord, AblationRecord)
STORED = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_every_stored_record_loads_and_a_method_can_be_made_of_it(kind: type[Record]) -> None:
    records = Records(STORED)
    paths = sorted((STORED / kind.folder).glob("*/*.json"))
    assert paths
    for path in paths:
        record = records.find(kind, path.parent.name, path.stem)
        assert record is not None
        METHODS[record.method].settings(**record.settings)
