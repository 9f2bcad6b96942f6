"""What the order of time says: how recent an item is, and which items stand near each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import InputError


def recency_weights(data: Interactions, recency: float) -> NDArray[np.float64]:
    """exp(δ · position) of every pair, divided by the user's mean: without recency all ones.

    The position goes from 0, a user's oldest item, to 1, the newest, however many there are.

    >>> data = Interactions.from_pairs([0, 0, 0], [5, 6, 7], ordered=True)
    >>> recency_weights(data, 0.0).tolist()
    [1.0, 1.0, 1.0]
    >>> recency_weights(data, 2.0).round(2).tolist()
    [0.27, 0.73, 2.0]
    """
    if recency == 0:
        return np.ones(len(data))
    _check_order(data)
    counts = data.user_counts
    last = np.repeat(counts - 1, counts)
    raw = np.exp(-recency * (last - data.positions) / np.maximum(last, 1))  # at most one
    means = np.bincount(data.users, weights=raw, minlength=data.n_users) / np.maximum(counts, 1)
    weights: NDArray[np.float64] = raw / np.repeat(means, counts)
    return weights


def stretches(data: Interactions, length: int) -> NDArray[np.int64]:
    """Each pair's stretch, when users' rows are cut into so many items each from their end on.

    >>> data = Interactions.from_pairs([0, 0, 0, 1], [5, 6, 7, 5], ordered=True)
    >>> stretches(data, 2).tolist()
    [1, 0, 0, 2]
    """
    _check_order(data)
    counts = data.user_counts
    firsts = np.concatenate(([0], np.cumsum(-(-counts // length))))
    from_end = np.repeat(counts, counts) - 1 - data.positions
    numbers: NDArray[np.int64] = firsts[data.users] + from_end // length
    return numbers


def _check_order(data: Interactions) -> None:
    if not data.ordered:
        raise InputError(
            "recency needs interactions in order of time: give a timestamp column, or say that "
            "they are in order ('ordered')"
        )
