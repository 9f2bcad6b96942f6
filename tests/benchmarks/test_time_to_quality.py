"""The parts of the comparison with other libraries that could quietly falsify it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.evaluation.held_out import HeldOut
from densirank.scores import VectorScorer
from environments import Environment
from figure_time_to_quality import best_so_far
from peers.exchange import Result, Task, best_unseen
from time_to_quality import PEERS, SETTINGS, YARDSTICK, ListScorer, ours


class Installer:
    """Stands for the commands that make an environment; can fail at pip, as a lost network does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fails = False
        self.calls = 0

    def __call__(self, command: list[str]) -> None:
        self.calls += 1
        if "venv" in command:
            assert not self.folder.exists()
            (self.folder / "bin").mkdir(parents=True)
            (self.folder / "bin" / "python").touch()
        elif self.fails:
            raise OSError("no network")


def test_an_environment_is_made_once_and_never_used_half_made(tmp_path: Path) -> None:
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("implicit==0.7.3\n")
    environment = Environment(tmp_path / "environment", requirements)
    install = Installer(environment.folder)
    assert not environment.is_complete()

    install.fails = True
    with pytest.raises(OSError, match="no network"):
        environment.make(install)
    assert environment.python.exists()
    assert not environment.is_complete()

    install.fails = False
    environment.make(install)
    assert environment.is_complete()

    requirements.write_text("implicit==0.7.2\n")
    assert not environment.is_complete()
    install.fails = True
    with pytest.raises(OSError, match="no network"):
        environment.make(install)
    requirements.write_text("implicit==0.7.3\n")  # as it was when the environment was complete
    assert not environment.is_complete()


def test_lists_made_elsewhere_get_the_metrics_of_our_own(tmp_path: Path) -> None:
    world = planted(40, 25, items_per_user=8, test_items_per_user=5, seed=0)
    random = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 4, generator=random) for n in (40, 25))
    train = world.train
    Task(train.indptr, train.items, train.n_items, 1, 20, {}).save(tmp_path)

    task = Task.load(tmp_path)
    lists = best_unseen(task, lambda block: (users[block] @ items.T).numpy())
    Result(lists, 1.0, 1.0, {}).save(tmp_path)

    assert (lists == -1).any()  # most users have fewer than 20 unseen items
    held_out = HeldOut(world.test, train, torch.device("cpu"))
    theirs = held_out.evaluate(ListScorer(Result.load(tmp_path).lists, train.n_items), 20)
    ours = held_out.evaluate(VectorScorer(users, items), 20)
    assert theirs.summary() == ours.summary()
    assert 0 < np.mean(theirs.per_user["ndcg"]) < 1


@pytest.mark.parametrize("dataset", sorted(SETTINGS))
def test_every_point_has_settings_that_can_be_fitted(dataset: str) -> None:
    assert SETTINGS[dataset].keys() == PEERS.keys()
    assert YARDSTICK in PEERS
    world = planted(40, 25, items_per_user=8, seed=0)
    for device in ("cpu", "cuda"):
        for settings in ours(dataset, device).values():
            short = settings if "iterations" not in settings else settings | {"iterations": 1}
            ranker = Ranker(device="cpu", **({"method": "wd-lgcn"} | short)).fit(world.train)
            assert len(ranker.recommend(world.train.user_ids[0], 3)) == 3


def test_a_curve_of_the_best_so_far_only_rises() -> None:
    random = np.random.default_rng(0)
    points = [(float(s), float(v)) for s, v in random.random((30, 2))]
    curve = best_so_far(points)
    assert curve == sorted(curve)
    for seconds, value in points:
        there = [other for moment, other in curve if moment <= seconds]
        assert value <= max(there, default=-1)
    assert set(curve) <= set(points)
