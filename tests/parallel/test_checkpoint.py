"""A run that was stopped goes on with any number of processes, to the same result."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank import Ranker, load
from densirank.data.synthetic import planted


@pytest.fixture(scope="module")
def played(scene: Callable[[str], Any]) -> Any:
    return scene("resuming")


@pytest.fixture(scope="module")
def folder(played: Any) -> Path:
    return Path(played.folder)


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
        iterations=12,
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


@pytest.mark.parametrize(("iteration", "processes"), [(4, 4), (8, 2)])
def test_an_interruption_stops_all_after_the_same_step(
    folder: Path, iteration: int, processes: int
) -> None:
    stopped = load(folder / f"adam-until-{iteration}", "cpu")
    assert stopped.training_["interrupted"]
    assert stopped.training_["iterations"] == iteration
    assert stopped.training_["processes"] == processes


@pytest.mark.parametrize("damage", ["metadata", "half a file", "a file too few"])
def test_a_damaged_checkpoint_is_refused_in_a_sentence(played: Any, damage: str) -> None:
    ended = json.loads(Path(played.folder, "ended.json").read_text())
    assert ended[damage] == [2, 2]
    _, *parts = re.split(r"(?m)^=== (.+)\n", played.stderr)
    written = dict(zip(parts[::2], parts[1::2], strict=True))[damage]
    (complaint,) = [line for line in written.splitlines() if line.startswith("error:")]
    folder = Path(played.folder, damage)
    assert f"{folder / '1'} cannot be read as a checkpoint (" in complaint
    assert f"delete {folder} to start again" in complaint
    assert "Traceback" not in written
