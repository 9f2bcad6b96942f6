"""A run that was stopped goes on with any number of processes, to the same result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank import Ranker, load
from densirank.data.synthetic import planted


@pytest.fixture(scope="module")
def folder(scene: Callable[[str], Any]) -> Path:
    return Path(scene("resuming").folder)


@pytest.mark.parametrize("optimiser", ["adam", "whitened"])
def test_what_four_begin_two_go_on_with_and_one_ends_is_the_undisturbed_fit(
    folder: Path, optimiser: Any
) -> None:
    """Each found half a checkpoint beside the whole one, and left it alone."""
    data = planted(150, 90, items_per_user=10, test_items_per_user=3, seed=5).train
    undisturbed = Ranker(
        "wd-lgcn",
        device="cpu",
        dim=12,
        iterations=20,
        users_per_batch=64,
        optimiser=optimiser,
        validate_every=4,
    ).fit(data, 0.2)
    resumed = load(folder / f"{optimiser}-until-the-end", "cpu")
    for mine, theirs in (
        (resumed.scorer_.user_vectors, undisturbed.scorer_.user_vectors),
        (resumed.scorer_.item_vectors, undisturbed.scorer_.item_vectors),
    ):
        assert float((mine - theirs).norm() / theirs.norm()) < 1e-5
    assert (
        resumed.recommend(k=10)
        .drop("score", "probability")
        .equals(undisturbed.recommend(k=10).drop("score", "probability"))
    )
    iterations = [report["iteration"] for report in resumed.training_["reports"]]
    assert iterations == [report["iteration"] for report in undisturbed.training_["reports"]]


@pytest.mark.parametrize(("iteration", "processes"), [(8, 4), (12, 2)])
def test_an_interruption_stops_all_after_the_same_step(
    folder: Path, iteration: int, processes: int
) -> None:
    stopped = load(folder / f"adam-until-{iteration}", "cpu")
    assert stopped.training_["interrupted"]
    assert stopped.training_["iterations"] == iteration
    assert stopped.training_["processes"] == processes
