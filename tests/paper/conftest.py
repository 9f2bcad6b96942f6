from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank.data.adjacency_text import read_text_form
from densirank.data.datasets import PUBLIC_SETS, PublicPart, PublicSet, load_public
from densirank.data.interactions import Interactions
from densirank.data.synthetic import planted
from densirank.linalg.csr import Rows
from densirank.risks import Positives, Risk
from paper.records import RunRecord

RiskOfScores = Callable[[Risk, NDArray[np.float64], NDArray[np.bool_]], float]


@pytest.fixture(scope="session")
def risk_of_scores() -> RiskOfScores:
    """A risk of any scores f (users, items) whatever, with all items as candidates.

    A risk takes vectors, and e_u = the u-th unit vector, e_i = the i-th column of f make f.
    """

    def value(risk: Risk, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
        rows = Rows.of(densirank.read(sparse.csr_array(positive)), torch.device("cpu"))
        positives = Positives(rows.indptr, rows.columns, n_candidates=scores.shape[1])
        unit_vectors = torch.eye(len(scores), dtype=torch.float64)
        return float(risk(unit_vectors, torch.from_numpy(scores.T.copy()), positives))

    return value


WORLD = planted(100, 60, items_per_user=12, test_items_per_user=3, seed=5)


def as_text(data: Interactions) -> str:
    rows = ((user, *data.items_of(user)) for user in range(data.n_users))
    return "\n".join(" ".join(map(str, row)) for row in rows) + "\n"


def _ordered(data: Interactions) -> Interactions:
    return replace(data, ordered=True)


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
        train=PublicPart(len(train), train.pairs_fingerprint, _ordered(train).fingerprint),
        test=PublicPart(len(test), test.pairs_fingerprint, _ordered(test).fingerprint),
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
