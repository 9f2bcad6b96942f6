from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import count

import pytest

from densirank import Interactions
from densirank.data.synthetic import planted
from densirank.dimensions import Setting
from densirank.search import Trial
from densirank.search.propose import Evaluate

Objective = Callable[[Setting], float]
Judged = Callable[[Objective], Evaluate]
SetClock = Callable[[float], None]


@pytest.fixture
def judged() -> Judged:
    """Trials without fits: an objective says how good a setting is."""

    def by(objective: Objective) -> Evaluate:
        def evaluate(number: int, setting: Setting, earlier: Sequence[Trial]) -> Trial:
            return Trial(number, setting, "finished", objective(setting), None, None, 0.0)

        return evaluate

    return by


@pytest.fixture(scope="session")
def log() -> Interactions:
    """Users of different tastes, their items in order of time."""
    return planted(80, 50, rank=4, items_per_user=10, concentration=2.0, seed=3).train


@pytest.fixture
def clock_by_looks(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """A clock that advances by so many seconds whenever it is read."""

    def set_clock(seconds: float) -> None:
        looks = count()
        monkeypatch.setattr(time, "perf_counter", lambda: seconds * next(looks))

    return set_clock
