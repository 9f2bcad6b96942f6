"""How much each of a user's items counts by its place in time: exp(δ · position).

The position goes from 0, the oldest item, to 1, the newest, whatever the user's number of items.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import InputError


def recency_weights(data: Interactions, recency: float) -> NDArray[np.float64]:
    """exp(δ · position) of every pair, divided by the user's mean: without recency all ones.

    >>> data = Interactions.from_pairs([0, 0, 0], [5, 6, 7], ordered=True)
    >>> recency_weights(data, 0.0).tolist()
    [1.0, 1.0, 1.0]
    >>> recency_weights(data, 2.0).round(2).tolist()
    [0.27, 0.73, 2.0]
    """
    if recency == 0:
        return np.ones(len(data))
    if not data.ordered:
        raise InputError(
            "recency needs interactions in order of time: give a timestamp column, or say that "
            "they are in order ('ordered')"
        )
    counts = data.user_counts
    last = np.repeat(counts - 1, counts)
    raw = np.exp(-recency * (last - data.positions) / np.maximum(last, 1))  # at most one
    means = np.bincount(data.users, weights=raw, minlength=data.n_users) / np.maximum(counts, 1)
    weights: NDArray[np.float64] = raw / np.repeat(means, counts)
    return weights
