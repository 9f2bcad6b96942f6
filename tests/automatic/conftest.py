from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import pytest

from densirank import Interactions
from densirank.data.synthetic import planted

SetClock = Callable[[float], None]


@pytest.fixture(scope="session")
def log() -> Interactions:
    """People of different tastes, their items in order of time."""
    return planted(80, 50, rank=4, items_per_user=10, concentration=2.0, seed=3).train


@pytest.fixture
def clock_by_looks(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    """A clock that moves on by so many seconds whenever somebody looks at it."""

    def set_clock(seconds: float) -> None:
        looks = count()
        monkeypatch.setattr(time, "perf_counter", lambda: seconds * next(looks))

    return set_clock
