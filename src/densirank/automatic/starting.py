"""Where a search starts and what it looks at, by the size of the data and how unequal items are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from densirank.data.interactions import Interactions
from densirank.dimensions import Choices, Space
from densirank.methods import Method

LARGEST_DIM, SMALLEST_DIM = 256, 8
ITEMS = 40_000
"""Catalogues for which the method's own bound of the norms was chosen."""
UNEQUAL = 0.5
"""Gini coefficients of popularity from which on it says much about what comes next."""

SPACE: Mapping[str, tuple[float, ...]] = {
    "max_norm": (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.5, 8.0),
    "recency": (0.0, 1.0, 2.0, 3.0, 5.0),
    "base_exponent": (0.0, 0.1, 0.25, 0.5),
    "l2": (0.01, 0.02, 0.05, 0.1, 0.2),
    "user_exponent": (0.25, 0.5, 0.75, 1.0),
    "layers": (1, 2, 3, 4),
    "dim": (8, 16, 32, 64, 128, 256),
}
"""What is looked at, in order of what it brings; the filter is chosen after each training."""


def largest_dim(data: Interactions) -> int:
    """Dimensions that the data can fill: a power of two, far fewer than users or items.

    >>> largest_dim(Interactions.from_pairs(range(200), range(200)))
    32
    """
    room = max(1, min(data.n_users, data.n_items) // 4)
    return int(min(LARGEST_DIM, max(SMALLEST_DIM, 2 ** math.floor(math.log2(room)))))


def gini(counts: np.ndarray[Any, np.dtype[np.int64]]) -> float:
    """How unequal counts are: 0 where all are alike, near 1 where one has everything.

    >>> gini(np.array([5, 5, 5, 5])), gini(np.array([0, 0, 0, 8]))
    (0.0, 0.75)
    """
    shares = np.cumsum(np.sort(counts)) / counts.sum()
    return float(1 + 1 / len(counts) - 2 * shares.mean())


def start_for(data: Interactions, method: Method) -> dict[str, Any]:
    """The settings that a search for these data starts with, size aside.

    A density over few items needs no high scores, so norms are bounded with the catalogue's
    logarithm. Where popularity is very unequal, more of it goes into the base density.
    """
    usual: dict[str, Any] = method.settings_for(data.ordered).to_json()
    spread = math.log(max(2, data.n_items)) / math.log(ITEMS)
    changed = {
        "max_norm": usual["max_norm"] * math.sqrt(min(1.0, spread)),
        "base_exponent": max(
            usual["base_exponent"], 0.25 if gini(data.item_counts) > UNEQUAL else 0.0
        ),
    }
    return usual | changed


def space_for(data: Interactions, start: Mapping[str, Any]) -> Space:
    """What is searched: recency only where an order is known, and no more dimensions than now."""
    space = {key: Choices(values) for key, values in SPACE.items()}
    space["dim"] = Choices(tuple(dim for dim in SPACE["dim"] if dim <= start["dim"]))
    if not data.ordered:
        del space["recency"]
    return space
