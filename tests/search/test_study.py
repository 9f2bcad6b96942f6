from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from densirank import METHODS
from densirank.errors import DensirankError, InputError, StorageError
from densirank.search import Choices, Study, Trial
from densirank.search.study import Folder

SEARCH: dict[str, Any] = {"method": "wd-lgcn", "seed": 0, "l2": {"low": 0.1, "points": [0.1]}}
FIRST = Trial(1, {"l2": 0.1, "max_norm": None}, "finished", 1 / 3, 40, 50, 2.5, ((0.4, 0.1),))
SECOND = Trial(2, {"l2": 0.2, "max_norm": 2.0}, "pruned", 0.1, 20, 30, 1.5, ((0.4, 0.1),))


def records(folder: Path, resume: bool = True, **changes: Any) -> Folder:
    return Folder(folder, SEARCH | changes, resume)


def test_trials_come_back_as_they_were(tmp_path: Path) -> None:
    kept = records(tmp_path / "new" / "search")
    assert kept.trials() == []
    kept.add(FIRST, seed=7)
    kept.add(SECOND, seed=7)
    assert records(tmp_path / "new" / "search").trials() == [FIRST, SECOND]
    line = json.loads((tmp_path / "new" / "search" / "trials.jsonl").read_text().splitlines()[0])
    assert line["seed"] == 7
    assert {"densirank", "torch"} <= set(line["versions"])


def test_records_from_before_trials_named_their_method_are_read(tmp_path: Path) -> None:
    kept = records(tmp_path)
    plain = FIRST.to_json()
    del plain["method"]
    (tmp_path / "trials.jsonl").write_text(json.dumps(plain) + "\n")
    assert kept.trials() == [FIRST]


@pytest.mark.parametrize("left", [1, 20, -1])
def test_half_a_line_of_a_process_that_was_killed_is_cut(tmp_path: Path, left: int) -> None:
    kept = records(tmp_path)
    kept.add(FIRST, seed=0)
    log = tmp_path / "trials.jsonl"
    whole = log.read_bytes()
    kept.add(SECOND, seed=0)
    second = log.read_bytes()[len(whole) :]
    log.write_bytes(whole + second[:left])
    again = records(tmp_path)
    assert again.trials() == [FIRST]
    again.add(SECOND, seed=0)
    assert log.read_bytes() == whole + second


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("nonsense", "line 2, is not a valid trial"),
        ("{}", "line 2, is not a valid trial"),
        (json.dumps(SECOND.to_json() | {"status": "lost"}), "line 2, is not a valid trial.*'lost'"),
        (json.dumps(FIRST.to_json()), "line 2, has trial 1, not 2"),
    ],
)
def test_damaged_records_are_refused(tmp_path: Path, line: str, sentence: str) -> None:
    kept = records(tmp_path)
    kept.add(FIRST, seed=0)
    with (tmp_path / "trials.jsonl").open("a") as log:
        log.write(line + "\n")
    with pytest.raises(StorageError, match=sentence):
        kept.trials()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"method": "pde-lgcn", "seed": 1}, "its method is 'wd-lgcn', not 'pde-lgcn'"),
        ({"seed": 1}, "its seed is 0, not 1"),
        ({"l2": {"low": 0.2, "points": [0.1]}}, "its l2 is {'low': 0.1"),
        ({"max_norm": [1]}, r"its max_norm is None, not \[1\]"),
    ],
)
def test_another_search_is_refused_with_the_first_difference(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    records(tmp_path)
    with pytest.raises(StorageError, match=f"belongs to another search: {sentence}"):
        records(tmp_path, **changes)


def test_a_search_is_not_written_over(tmp_path: Path) -> None:
    records(tmp_path, resume=False)
    with pytest.raises(InputError, match=r"holds a search already.*--resume"):
        records(tmp_path, resume=False)


def test_folders_that_are_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="holds no search"):
        records(tmp_path)
    with pytest.raises(InputError, match="is a file; a folder for the search"):
        records(tmp_path / "thesis.tex")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "search.json").write_text("{")
    with pytest.raises(DensirankError, match="damaged"):
        records(tmp_path / "other")


def test_the_best_settings_are_written_as_they_are_read(tmp_path: Path) -> None:
    space = {"l2": Choices((0.1, 1e-5)), "max_norm": Choices((2.0, None))}
    best = Trial(1, {"l2": 1e-5, "max_norm": None}, "finished", 0.5, 40, 50, 1.0)
    study = Study(
        METHODS["wd-lgcn"], space, {"decay": 0.0, "optimiser": "adam"}, (best, SECOND)
    )  # fmt: skip
    records(tmp_path).write_best(study)
    text = (tmp_path / "best.toml").read_text()
    assert "--method wd-lgcn" in text
    assert METHODS["wd-lgcn"].settings_type.parse(tomllib.loads(text)) == study.settings
    assert study.settings == {
        "decay": 0.0,
        "optimiser": "adam",
        "l2": 1e-5,
        "max_norm": None,
        "iterations": 40,
    }
