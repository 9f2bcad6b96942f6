"""Off-policy estimates of the reward of another policy from slates with known propensities.

A logged slate i_1 … i_k was drawn with log-propensities log q(i_r | i_1 … i_{r-1}), as
``Ranker.sample`` returns them. A target policy would have drawn it with log π(i_r | i_1 … i_{r-1}),
as ``Ranker.log_propensity`` returns them. The reward at rank r is weighted by the likelihood ratio
of the slate down to that rank,

    w_r = Π_{s ≤ r} π(i_s | …) / q(i_s | …),      V̂_r = mean of w_r · reward_r,

importance sampling decision by decision (Precup et al. 2000). V̂_r is unbiased for the target's
expected reward at rank r if q can draw everything that π can, and if a reward depends on the user,
the item and the items above it, not on those below. For first draws w is π(i|u) / q(i|u), inverse
propensity scoring. Self-normalised, the mean is divided by the mean weight, whose expectation is
one: less variance for some bias, which vanishes with more slates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from densirank.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OffPolicyEstimate:
    """A target policy's expected reward at each rank, and of a whole slate."""

    values: Floats  # (ranks,)
    standard_errors: Floats  # (ranks,)
    effective_slates: Floats  # (ranks,) (Σw)² / Σw²: the effective number of slates
    total: float
    total_standard_error: float


def inverse_propensity(
    ranks: ArrayLike,
    rewards: ArrayLike,
    log_propensities: ArrayLike,
    log_targets: ArrayLike,
    *,
    self_normalised: bool = False,
) -> OffPolicyEstimate:
    """The expected reward of a target policy from the rows of logged slates.

    The columns are parallel: a slate is a row of rank 1 and the rows of rank 2, 3, … after it, and
    slates are independent draws. The log-target of an item that the target never draws is -inf. A
    short slate has reward 0 at its missing ranks.

    >>> logged = np.log([0.5, 0.5, 0.5, 0.5])   # two items, drawn evenly
    >>> target = np.log([0.9, 0.9, 0.1, 0.1])   # a policy that prefers the first
    >>> estimate = inverse_propensity([1, 1, 1, 1], [1, 1, 0, 0], logged, target)
    >>> estimate.values.round(3).tolist(), round(float(estimate.effective_slates[0]), 2)
    ([0.9], 2.44)
    """
    rank = np.asarray(ranks)
    reward, propensity, target = (
        np.asarray(column, dtype=float) for column in (rewards, log_propensities, log_targets)
    )
    _check(rank, reward, propensity, target)
    slate = np.cumsum(rank == 1) - 1
    shape = (int(slate[-1]) + 1, int(rank.max()))
    if shape[0] < 2:
        raise InputError("a standard error needs at least two slates")
    log_ratio, earned = np.zeros(shape), np.zeros(shape)  # (slates, ranks)
    log_ratio[slate, rank - 1] = target - propensity
    earned[slate, rank - 1] = reward
    weights = np.exp(np.cumsum(log_ratio, axis=1))
    mass = weights.sum(axis=0)
    if self_normalised and (mass == 0).any():
        raise InputError("no estimate: the target policy draws none of the logged slates")
    scale = mass / len(weights) if self_normalised else np.ones(shape[1])
    weighted = weights * earned / scale
    values = weighted.mean(axis=0)
    # To first order, the error of a ratio of means is that of w (reward − V̂) / mean w.
    residuals = weighted - values * (weights / scale if self_normalised else 1)
    squares = (weights**2).sum(axis=0)
    return OffPolicyEstimate(
        values,
        _standard_error(residuals),
        np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0),
        float(values.sum()),
        float(_standard_error(residuals.sum(axis=1))),
    )


def _standard_error(residuals: Floats) -> Floats:
    """The standard error of a mean, from the residuals of the slates."""
    n = len(residuals)
    error: Floats = np.sqrt((residuals**2).sum(axis=0) / (n - 1) / n)
    return error


def _check(
    rank: NDArray[np.integer[Any]], reward: Floats, propensity: Floats, target: Floats
) -> None:
    if not len(rank) == len(reward) == len(propensity) == len(target):
        raise InputError("ranks, rewards, log-propensities and log-targets differ in length")
    if len(rank) == 0:
        raise InputError("there are no logged slates")
    starts = rank == 1
    if not starts[0] or (rank[1:] != np.where(starts[1:], 1, rank[:-1] + 1)).any():
        raise InputError("the ranks of a slate must run 1, 2, 3, … in consecutive rows")
    if not np.isfinite(reward).all():
        raise InputError("rewards must be finite")
    if not np.isfinite(propensity).all() or (propensity > 1e-6).any():
        raise InputError("log-propensities must be finite and at most 0")
    if np.isnan(target).any() or (target > 1e-6).any():
        raise InputError("log-targets must be at most 0 (-inf for items the target never draws)")
