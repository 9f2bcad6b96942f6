"""How large a model, and for how many steps: by what a step takes on this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from densirank.data.interactions import Interactions
from densirank.settings import Candidates

PLENTY = 250
"""Steps after which more of them bring nothing."""
ENOUGH = 100
"""Steps that a model takes to come near to that."""
FEW = 30
"""Steps without which a model is not worth its dimensions."""
MODEST_DIM = 64
"""What is worth having even for a few steps; more dimensions wait for time for enough."""
TRIALS = 3
"""Fits to choose by, at least, before a model is made larger than modest."""
HASTY, HASTY_RATE = 50, 0.3
"""With fewer steps than these, each has to be longer."""


@dataclass(frozen=True)
class Size:
    """What a step costs time for."""

    dim: int
    users_per_batch: int
    candidates: Candidates

    def work(self, data: Interactions) -> float:
        """Products of a step, about: the propagation's and the risk's."""
        candidates = float(data.n_items)
        users = min(self.users_per_batch, data.n_users)
        if self.candidates == "batch":
            candidates = min(candidates, users * len(data) / data.n_users)
        return self.dim * (10.0 * len(data) + users * candidates)


@dataclass(frozen=True)
class Cost:
    """Seconds of a fit: before training, and for each step."""

    before: float
    step: float

    def of(self, iterations: int) -> float:
        return self.before + iterations * self.step

    def steps_in(self, seconds: float) -> int:
        """How many steps so many seconds are enough for; one in any case."""
        return max(1, math.floor((seconds - self.before) / max(self.step, 1e-9)))


ENDLESS = Cost(0.0, math.inf)
"""Of what nobody waits for."""


@dataclass(frozen=True)
class Plan:
    """A size that there is time for, and how many steps of it."""

    size: Size
    cost: Cost
    iterations: int

    @property
    def seconds(self) -> float:
        """What a fit takes."""
        return self.cost.of(self.iterations)

    @property
    def settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "dim": self.size.dim,
            "users_per_batch": self.size.users_per_batch,
            "candidates": self.size.candidates,
            "iterations": self.iterations,
        }
        return settings if self.iterations >= HASTY else settings | {"learning_rate": HASTY_RATE}


LADDER = (
    Size(16, 1000, "batch"),
    Size(32, 2500, "batch"),
    Size(64, 2500, "batch"),
    Size(128, 2500, "batch"),
    Size(128, 5000, "all"),
    Size(256, 5000, "all"),
)
"""From what is had in no time to what a GPU has time for."""


def sizes_for(data: Interactions, largest_dim: int) -> list[Size]:
    """The sizes that make sense for these data, the smallest first."""
    capped = (
        Size(min(size.dim, largest_dim), size.users_per_batch, size.candidates) for size in LADDER
    )
    return list(dict.fromkeys(capped))


def plan_for(
    data: Interactions,
    sizes: list[Size],
    cost_of: Callable[[Size], Cost],
    left: Callable[[], float],
) -> Plan:
    """The largest size that there is time for to fit it twice, or large ones more often.

    One of the fits is to choose by and the last one is to all data. Sizes are measured from the
    smallest on, and one that promises to be too slow is not even measured.
    """
    *_, largest = _affordable(data, sizes, cost_of, left)
    return largest


def _affordable(
    data: Interactions,
    sizes: list[Size],
    cost_of: Callable[[Size], Cost],
    left: Callable[[], float],
) -> Iterator[Plan]:
    cost, before = cost_of(sizes[0]), sizes[0]
    yield _planned(sizes[0], cost, left())

    def promising(size: Size) -> bool:
        slower = size.work(data) / before.work(data)
        return _worth_it(size, Cost(cost.before, cost.step * slower), left())

    for size in takewhile(promising, sizes[1:]):
        measured = cost_of(size)
        if not _worth_it(size, measured, left()):
            return
        cost, before = measured, size
        yield _planned(size, cost, left())


def _worth_it(size: Size, cost: Cost, left: float) -> bool:
    if size.dim <= MODEST_DIM:
        return cost.steps_in(left / 2) >= FEW
    return cost.steps_in(left / (TRIALS + 1)) >= ENOUGH


def _planned(size: Size, cost: Cost, left: float) -> Plan:
    several = cost.steps_in(left / (TRIALS + 1))
    steps = several if several >= ENOUGH else min(ENOUGH, cost.steps_in(left / 2))
    return Plan(size, cost, min(PLENTY, steps))
