"""What a pair counts among those of its user, and groups of items by their order in time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import InputError


def recency_weights(data: Interactions, recency: float) -> NDArray[np.float64]:
    """exp(δ · position) of every pair, divided by the mean of its user; all ones if δ = 0.

    The position of a user's oldest item is 0, that of the newest is 1.

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
    raw = np.exp(-recency * (last - data.positions) / np.maximum(last, 1))  # at most 1
    means = np.bincount(data.users, weights=raw, minlength=data.n_users) / np.maximum(counts, 1)
    weights: NDArray[np.float64] = raw / np.repeat(means, counts)
    return weights


def pair_weights(data: Interactions, recency: float = 0.0) -> NDArray[np.float64] | None:
    """The weight of every pair times its recency, divided by the mean of its user.

    None where all pairs of each user count alike, so that equal weights change no result.

    >>> data = Interactions.from_pairs([0, 0, 1], [5, 6, 7], weights=[1.0, 3.0, 9.0])
    >>> pair_weights(data).tolist()
    [0.5, 1.5, 1.0]
    """
    relative = None if data.weights is None else _relative_weights(data, data.weights)
    if relative is None or bool((relative == 1).all()):
        return None if recency == 0 else recency_weights(data, recency)
    raw = recency_weights(data, recency) * relative
    counts = data.user_counts
    means = np.bincount(data.users, weights=raw, minlength=data.n_users) / np.maximum(counts, 1)
    weights: NDArray[np.float64] = raw / np.repeat(means, counts)
    return weights


def _relative_weights(data: Interactions, weights: NDArray[np.float32]) -> NDArray[np.float64]:
    """Each weight as a share of the largest of its user: exactly 1 where they are equal."""
    some = data.user_counts > 0
    largest = np.ones(data.n_users, dtype=np.float32)
    largest[some] = np.maximum.reduceat(weights, data.indptr[:-1][some])
    relative: NDArray[np.float64] = weights / np.repeat(largest, data.user_counts).astype(float)
    return relative


def stretches(data: Interactions, length: int) -> NDArray[np.int64]:
    """The stretch of each pair: rows are cut into stretches of ``length`` items from their end.

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
            "recency needs interactions in order of time: pass a timestamp column, or "
            "ordered=True (--ordered)"
        )
