"""However many processes make a fit, it is the fit that one makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank import Ranker, load
from densirank.errors import InputError
from densirank.ranker import fit_ranker
from densirank.world import World

NAMES = [
    "wd-mf-adam",
    "wd-mf-whitened",
    "wd-lgcn-adam",
    "wd-lgcn-whitened",
    "sampled",
    "every-item",
    "weighted",
    "weighted-pairs",
    "validated",
    "few",
]


@pytest.fixture(scope="module")
def models(scene: Callable[[str], Any]) -> Path:
    return Path(scene("equality").folder)


def _pair(models: Path, name: str, processes: int) -> tuple[Ranker, Ranker]:
    return load(models / f"{name}-1", "cpu"), load(models / f"{name}-{processes}", "cpu")


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_several_processes_learn_the_vectors_that_one_learns(
    models: Path, name: str, processes: int
) -> None:
    """Four processes have no users for one of them in the case of few users."""
    alone, together = _pair(models, name, processes)
    assert together.parameters_.keys() == alone.parameters_.keys()
    for mine, theirs in (
        (together.scorer_.user_vectors, alone.scorer_.user_vectors),
        (together.scorer_.item_vectors, alone.scorer_.item_vectors),
        *((together.parameters_[key], alone.parameters_[key]) for key in alone.parameters_),
    ):
        assert mine.shape == theirs.shape
        assert float((mine - theirs).norm() / theirs.norm()) < ROUNDING
    if alone.items_.messages is not None:
        assert together.items_.messages is not None
        difference = together.items_.messages - alone.items_.messages
        assert float(difference.norm() / alone.items_.messages.norm()) < ROUNDING


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_several_processes_recommend_what_one_recommends(
    models: Path, name: str, processes: int
) -> None:
    alone, together = _pair(models, name, processes)
    mine, theirs = together.recommend(k=10), alone.recommend(k=10)
    assert mine["user_id"].to_list() == theirs["user_id"].to_list()
    assert mine["item_id"].to_list() == theirs["item_id"].to_list()


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_the_loss_and_the_validation_are_those_of_all_users(
    models: Path, name: str, processes: int
) -> None:
    alone, together = _pair(models, name, processes)
    assert together.training_["iterations"] == alone.training_["iterations"]
    assert together.training_["best_iteration"] == alone.training_["best_iteration"]
    pairs = zip(together.training_["reports"], alone.training_["reports"], strict=True)
    for mine, theirs in pairs:
        assert mine["iteration"] == theirs["iteration"]
        assert mine["loss"] == pytest.approx(theirs["loss"], abs=1e-4)
        assert mine["validation"] == pytest.approx(theirs["validation"], abs=1e-9)


ROUNDING = 1e-5
"""Of float32, grown over fifty steps: another order of sums is another last digit in each."""


def test_several_processes_have_no_half_precision() -> None:
    ranker = Ranker("wd-mf", precision="half", device="cpu")
    with pytest.raises(InputError, match="several processes compute in float32"):
        fit_ranker(ranker, [(1, 2), (2, 1)], world=World(backend="gloo"))
