from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank.data.catalogue import PUBLIC_SETS, PublicPart, PublicSet, load_public
from densirank.data.interactions import Interactions
from densirank.data.synthetic import planted
from densirank.data.textform import read_text_form
from densirank.experiments.records import RunRecord

WORLD = planted(100, 60, items_per_user=12, test_items_per_user=3, seed=5)


def as_text(data: Interactions) -> str:
    rows = ((user, *data.items_of(user)) for user in range(data.n_users))
    return "\n".join(" ".join(map(str, row)) for row in rows) + "\n"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a public set small enough to run everything on."""
    folder = tmp_path / "data"
    (folder / "tiny").mkdir(parents=True)
    (folder / "tiny" / "train.txt").write_text(as_text(WORLD.train))
    (folder / "tiny" / "test.txt").write_text(as_text(WORLD.test))
    train, test = (read_text_form(folder / "tiny" / f"{part}.txt") for part in ("train", "test"))
    known = PublicSet(
        users=train.n_users,
        items=train.n_items,
        train=PublicPart(len(train), train.fingerprint),
        test=PublicPart(len(test), test.fingerprint),
        fetched=False,
    )
    monkeypatch.setitem(PUBLIC_SETS, "tiny", known)
    return folder


@pytest.fixture
def train(data_dir: Path) -> Interactions:
    """The training part of that set."""
    return load_public("tiny", "train", data_dir)


MakeRun = Callable[..., RunRecord]


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Records of runs that never were."""

    def make(
        method: str = "wd-mf", seed: int = 0, recall: float = 0.2, ndcg: float = 0.1, **other: Any
    ) -> RunRecord:
        given: dict[str, Any] = {
            "dataset": "elsewhere",
            "settings": {"dim": 8},
            "train_fingerprint": "a",
            "test_fingerprint": "b",
            "versions": {"densirank": "1"},
            "hardware": {"device": "cpu"},
            "iterations": 100,
            "seconds": 1.5,
            "metrics": {"recall@20": recall, "ndcg@20": ndcg, "users": 7},
        }
        return RunRecord(method=method, seed=seed, **(given | other))

    return make
