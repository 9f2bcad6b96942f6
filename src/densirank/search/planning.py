"""Planning within a time budget: the size and length of a fit, and the start of the search."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from densirank.data.interactions import Interactions
from densirank.dimensions import Choices, Space
from densirank.errors import InputError
from densirank.methods import Method
from densirank.settings import Candidates

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
PLENTY = 250
"""Steps beyond which results do not improve."""
ENOUGH = 100
"""Steps after which a model is close to its best."""
FEW = 30
"""Minimum number of steps for a model to be worth its dimensions."""
MODEST_DIM = 64
"""Dimensions that pay off with :data:`FEW` steps; more need time for :data:`ENOUGH` steps."""
TRIALS = 3
"""Minimum number of trials that must fit the budget before dim exceeds :data:`MODEST_DIM`."""
HASTY, HASTY_RATE = 50, 0.3
"""With fewer steps than this, a higher learning rate is used."""
LARGEST_DIM, SMALLEST_DIM = 256, 8
ITEMS = 40_000
"""Size of the catalogues for which the method's default max_norm was chosen."""
UNEQUAL = 0.5
"""Gini coefficient of popularity above which the search starts with a larger base_exponent."""

SPACE: Space = {
    "max_norm": Choices((1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.5, 8.0)),
    "recency": Choices((0.0, 1.0, 2.0, 3.0, 5.0)),
    "base_exponent": Choices((0.0, 0.1, 0.25, 0.5)),
    "l2": Choices((0.01, 0.02, 0.05, 0.1, 0.2)),
    "user_exponent": Choices((0.25, 0.5, 0.75, 1.0)),
    "layers": Choices((1, 2, 3, 4)),
    "dim": Choices((8, 16, 32, 64, 128, 256)),
}
"""The search space, by decreasing gain; the filter is chosen after each training."""


def seconds_of(budget: str | float) -> float:
    """A budget in seconds, from a number or from text such as ``90``, ``60s``, ``2m``, ``1.5h``.

    >>> seconds_of("1.5h"), seconds_of("2m"), seconds_of(30)
    (5400.0, 120.0, 30.0)
    """
    parts = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", str(budget).lower())
    seconds = math.nan
    if parts is not None and parts[2] in UNITS:
        seconds = float(parts[1]) * UNITS[parts[2]]
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(
            f"a budget is a time above 0, such as 60s, 2m, 1.5h or a number of seconds, "
            f"not {str(budget)!r}"
        )
    return seconds


class Clock:
    """Measures a time budget from the moment of creation."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._started = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since creation."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Remaining seconds of the budget; negative if it is exceeded."""
        return self.budget - self.elapsed


@dataclass(frozen=True)
class Size:
    """The settings that determine the time of a step."""

    dim: int
    users_per_batch: int
    candidates: Candidates

    def work(self, data: Interactions) -> float:
        """Approximate number of products in a step: propagation and risk."""
        candidates = float(data.n_items)
        users = min(self.users_per_batch, data.n_users)
        if self.candidates == "batch":
            candidates = min(candidates, users * len(data) / data.n_users)
        return self.dim * (10.0 * len(data) + users * candidates)


LADDER = (
    Size(16, 1000, "batch"),
    Size(32, 2500, "batch"),
    Size(64, 2500, "batch"),
    Size(128, 2500, "batch"),
    Size(128, 5000, "all"),
    Size(256, 5000, "all"),
)
"""Sizes from the fastest to the largest, for a GPU."""


@dataclass(frozen=True)
class Cost:
    """Seconds of a fit: before training, and for each step."""

    before: float
    step: float

    def of(self, iterations: int) -> float:
        return self.before + iterations * self.step

    def steps_in(self, seconds: float) -> int:
        """The number of steps that fit into ``seconds``; at least one."""
        return max(1, math.floor((seconds - self.before) / max(self.step, 1e-9)))


ENDLESS = Cost(0.0, math.inf)
"""The cost of a fit whose measurement did not finish."""


@dataclass(frozen=True)
class Plan:
    """A size that fits the budget, its cost, and the number of steps."""

    size: Size
    cost: Cost
    iterations: int

    @property
    def settings(self) -> dict[str, Any]:
        settings = asdict(self.size) | {"iterations": self.iterations}
        return settings if self.iterations >= HASTY else settings | {"learning_rate": HASTY_RATE}


def sizes_for(data: Interactions, largest_dim: int) -> list[Size]:
    """The sizes of the ladder with at most ``largest_dim`` dimensions, smallest first."""
    capped = (replace(size, dim=min(size.dim, largest_dim)) for size in LADDER)
    return list(dict.fromkeys(capped))


def plan_for(
    data: Interactions,
    sizes: list[Size],
    cost_of: Callable[[Size], Cost],
    left: Callable[[], float],
) -> Plan:
    """The largest size with time for two fits (a trial and the final fit), or more if it is large.

    Sizes are measured from the smallest on; a size that is expected to be too slow is not measured.
    """
    plan = _planned(sizes[0], cost_of(sizes[0]), left())
    for size in sizes[1:]:
        slower = size.work(data) / plan.size.work(data)
        if not _worth_it(size, Cost(plan.cost.before, plan.cost.step * slower), left()):
            break
        cost = cost_of(size)
        if not _worth_it(size, cost, left()):
            break
        plan = _planned(size, cost, left())
    return plan


def _worth_it(size: Size, cost: Cost, left: float) -> bool:
    if size.dim <= MODEST_DIM:
        return cost.steps_in(left / 2) >= FEW
    return cost.steps_in(left / (TRIALS + 1)) >= ENOUGH


def _planned(size: Size, cost: Cost, left: float) -> Plan:
    several = cost.steps_in(left / (TRIALS + 1))
    steps = several if several >= ENOUGH else min(ENOUGH, cost.steps_in(left / 2))
    return Plan(size, cost, min(PLENTY, steps))


def largest_dim(data: Interactions) -> int:
    """The largest number of dimensions for the data: a power of two, far below users and items.

    >>> largest_dim(Interactions.from_pairs(range(200), range(200)))
    32
    """
    room = max(1, min(data.n_users, data.n_items) // 4)
    return int(min(LARGEST_DIM, max(SMALLEST_DIM, 2 ** math.floor(math.log2(room)))))


def gini(counts: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """The Gini coefficient: 0 if all counts are equal, near 1 if a single one has the whole sum.

    >>> gini(np.array([5, 5, 5, 5])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    shares = np.cumsum(np.sort(counts)) / counts.sum()
    return float(1 + 1 / len(counts) - 2 * shares.mean())


def start_for(data: Interactions, method: Method) -> dict[str, Any]:
    """The settings from which a search on these data starts, apart from the size.

    A density over few items does not need high scores, so max_norm grows with the logarithm of the
    catalogue size. If popularity is very unequal, the base density includes more of it.
    """
    usual: dict[str, Any] = method.settings_for(data.ordered).to_json()
    spread = math.log(max(2, data.n_items)) / math.log(ITEMS)
    least_exponent = 0.25 if gini(data.item_counts) > UNEQUAL else 0.0
    return usual | {
        "max_norm": usual["max_norm"] * math.sqrt(min(1.0, spread)),
        "base_exponent": max(usual["base_exponent"], least_exponent),
    }


def space_around(data: Interactions, start: Mapping[str, Any]) -> Space:
    """The search space: recency only if an order is known, dimensions up to the planned size."""
    dims = tuple(dim for dim in SPACE["dim"].grid().values if dim <= start["dim"])
    space = {**SPACE, "dim": Choices(dims)}
    if not data.ordered:
        del space["recency"]
    return space
