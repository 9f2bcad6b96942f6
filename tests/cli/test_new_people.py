"""``densirank update``, ``recommend --history`` and ``recommend --unknown``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from densirank import Interactions, Ranker, load
from densirank.cli.app import app
from densirank.errors import InputError

Fitted = Callable[..., Ranker]


@pytest.fixture
def folder(fitted: Fitted, tmp_path: Path) -> Path:
    fitted("wd-lgcn", iterations=10).save(tmp_path / "model")
    return tmp_path / "model"


def _run(*words: object) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_update_writes_a_model_that_knows_more(
    folder: Path, newcomers: Interactions, tmp_path: Path
) -> None:
    data = tmp_path / "new.csv"
    rows = "".join(f"{user},{item}\n" for user, item in newcomers.pairs())
    data.write_text(f"user_id,item_id\n{rows}")
    _run("update", folder, data, "--out", tmp_path / "updated", "--device", "cpu")
    before, after = load(folder, "cpu"), load(tmp_path / "updated", "cpu")
    assert len(after.interactions_) == len(before.interactions_) + len(newcomers)
    assert after.training_["iterations"] == 5
    assert after.recommend(k=3).equals(before.update(newcomers).recommend(k=3))


def test_a_history_is_folded_in(folder: Path, there: Interactions) -> None:
    first, second = there.item_ids[0], there.item_ids[1]
    said = _run(
        "recommend", folder, "--history", f"{first}, {second},xyz", "-k", 3, "--json",
        "--device", "cpu",
    )  # fmt: skip
    folded = load(folder, "cpu").fold_in([(0, first), (0, second)])
    assert [row["item_id"] for row in json.loads(said)] == folded.recommend(0, k=3)[
        "item_id"
    ].to_list()


def test_strangers_are_refused_or_get_what_is_popular(folder: Path) -> None:
    stranger = ("recommend", folder, "--user", 10**6, "--json", "--device", "cpu")
    with pytest.raises(InputError, match="does not know the user 1000000"):
        _run(*stranger)
    rows = json.loads(_run(*stranger, "--unknown", "popular"))
    assert {row["user_id"] for row in rows} == {10**6}


def test_for_whom_is_said_in_one_way(folder: Path) -> None:
    for words in ((), ("--all", "--history", "1"), ("--history", " , ")):
        with pytest.raises(InputError, match=r"pass exactly one of|--history takes"):
            _run("recommend", folder, *words)
