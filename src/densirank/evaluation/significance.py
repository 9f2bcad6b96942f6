"""Significance tests for the differences between systems, pair by pair and user by user.

The paired test is the randomised Tukey HSD (Carterette 2012, "Multiple testing in statistical
analysis of systems-based information retrieval experiments"; Sakai 2018, "Laboratory experiments
in information retrieval"): if all systems were equal, the values of each user could be permuted
among the systems, so every trial permutes them and records the largest difference between two
systems. The classical Tukey HSD treats the values of two systems as those of different users, which
ignores the pairing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.special import ndtri

from densirank.errors import InputError
from densirank.evaluation.metrics import Floats

BLOCK_BYTES = 2**23
"""Memory for the permutations of a block of users."""

TIE = 1e-12
"""Differences below this share of the largest value are rounding."""


@dataclass(frozen=True)
class Effect:
    """Hedges' g with its confidence interval."""

    g: float
    low: float
    high: float


@dataclass(frozen=True)
class Comparison:
    """Two systems on the same users; positive values favour the first."""

    first: str
    second: str
    first_mean: float
    second_mean: float
    difference: float
    p_paired: float
    p_unpaired: float
    paired: Effect
    unpaired_g: float


def compare(
    per_user: Mapping[str, Floats], trials: int = 5000, seed: int = 0, confidence: float = 0.95
) -> list[Comparison]:
    """Compare every pair of systems by the values of a metric for the same users.

    >>> better, worse = np.array([0.3, 0.5, 0.4, 0.9]), np.array([0.2, 0.3, 0.1, 0.7])
    >>> [pair] = compare({"better": better, "worse": worse})
    >>> round(pair.difference, 3), round(pair.p_paired, 1)  # 2 of the 16 permutations
    (0.2, 0.1)
    """
    if trials < 1:
        raise InputError(f"trials must be at least 1, not {trials}")
    if seed < 0:
        raise InputError(f"seed must be 0 or more, not {seed}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, not {confidence}")
    scores = _matrix(per_user)
    p_paired = randomised_tukey_hsd(scores, trials, seed)
    p_unpaired = classical_tukey_hsd(scores)
    systems = zip(per_user, scores.T, strict=True)
    return [
        Comparison(
            first=first,
            second=second,
            first_mean=float(a.mean()),
            second_mean=float(b.mean()),
            difference=float((a - b).mean()),
            p_paired=float(p_paired[pair]),
            p_unpaired=float(p_unpaired[pair]),
            paired=paired_effect(a - b, confidence),
            unpaired_g=unpaired_g(a, b),
        )
        for pair, ((first, a), (second, b)) in enumerate(combinations(systems, 2))
    ]


def randomised_tukey_hsd(scores: Floats, trials: int, seed: int) -> Floats:
    """p of every pair of columns: the share of trials with at least the range of the pair.

    A share of 0 means that no trial reached the difference; the number of pairs is accounted for.
    The mean of a user is subtracted and the rest is permuted from sorted rows: neither the level of
    a user nor the order of the systems changes the result.
    """
    centred = scores - np.sort(scores, axis=1).mean(axis=1, keepdims=True)
    ranges = np.sort(_null_ranges(np.sort(centred, axis=1), trials, seed))
    tie = TIE * np.abs(centred).max()
    smaller = np.searchsorted(ranges, _gaps(centred) - tie)
    p: Floats = (trials - smaller) / trials
    return p


def classical_tukey_hsd(scores: Floats) -> Floats:
    """p of every pair of columns by the studentised range, ignoring the pairing of users."""
    from scipy.stats import studentized_range  # takes a second to import

    n_users, n_systems = scores.shape
    gaps = _gaps(scores)
    error = math.sqrt(scores.var(axis=0, ddof=1).mean() / n_users)
    if error == 0:  # no variance: every difference is significant
        return np.where(gaps == 0, 1.0, 0.0)
    p: Floats = studentized_range.sf(gaps / error, n_systems, n_systems * (n_users - 1))
    return p


def paired_effect(differences: Floats, confidence: float = 0.95) -> Effect:
    """Hedges' g of paired differences d: J·mean(d)/sd(d).

    The interval is g ± z·√(1/n + g²/2df), the large-sample interval for differences that are nearly
    normal or a g near 0. The g of constant differences is infinite, or 0 if they are 0.
    """
    n_users = len(differences)
    g = _hedges_g(float(differences.mean()), float(differences.std(ddof=1)), n_users - 1)
    if math.isinf(g):
        return Effect(g, g, g)
    quantile = float(ndtri((1 + confidence) / 2))
    margin = quantile * math.sqrt(1 / n_users + g**2 / (2 * (n_users - 1)))
    return Effect(g, g - margin, g + margin)


def unpaired_g(a: Floats, b: Floats) -> float:
    """Hedges' g by the pooled standard deviation of two systems, ignoring the pairing.

    It is smaller than the paired g if the values of the systems are correlated.
    """
    pooled = math.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 2)
    return _hedges_g(float((a - b).mean()), pooled, 2 * len(a) - 2)


def _matrix(per_user: Mapping[str, Floats]) -> Floats:
    """The values as users × systems, validated."""
    if len(per_user) < 2:
        raise InputError(f"a comparison needs at least two systems, not {len(per_user)}")
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in per_user.items()}
    first, n_users = next((name, np.size(values)) for name, values in columns.items())
    for name, values in columns.items():
        if values.ndim != 1:
            raise InputError(f"{name!r} must have one value per user, not the shape {values.shape}")
        if len(values) != n_users:
            raise InputError(
                f"{name!r} has {len(values)} users and {first!r} has {n_users}: "
                "a comparison needs the same users"
            )
        if not np.isfinite(values).all():
            user = int(np.flatnonzero(~np.isfinite(values))[0])
            raise InputError(
                f"{name!r} must be finite, but the value at position {user} is {values[user]}"
            )
    if n_users < 2:
        raise InputError(f"a comparison needs at least two users, not {n_users}")
    return np.column_stack(list(columns.values()))


def _null_ranges(rows: Floats, trials: int, seed: int) -> Floats:
    """The range of the column means with independently permuted rows, ``trials`` times.

    The trials form a grid. Trial (s, t) permutes the row of user u by A[u,s] after B[u,t], where
    all A and B are uniform and independent, so the rows of each trial are permuted uniformly and
    independently: each trial is a draw from the null distribution. Any three trials are independent
    too (four at the corners of a rectangle are not), so the share of trials has the mean p and the
    variance p(1 − p)/trials of independent draws. Yet only 2·√trials permutations per row are
    drawn, and the sums of all trials are one matrix product:
    rows permuted by A, (s, users × systems), times B as zeros and ones, (users × systems,
    t × systems).
    """
    random = np.random.default_rng(seed)
    n_users, n_systems = rows.shape
    height = math.isqrt(trials - 1) + 1
    width = -(-trials // height)
    systems = np.arange(n_systems)
    sums = np.zeros((height, width * n_systems))
    block = max(1, BLOCK_BYTES // (8 * n_systems * (height + width * (1 + n_systems))))
    for start in range(0, n_users, block):
        some = rows[start : start + block]
        n = len(some)
        dealt = random.permuted(np.broadcast_to(some, (height, *some.shape)), axis=2)
        again = random.permuted(np.broadcast_to(systems, (n, width, n_systems)), axis=2)
        picks = (again[:, None] == systems[:, None, None]).astype(np.float64)
        sums += dealt.reshape(height, -1) @ picks.reshape(n * n_systems, -1)
    ranges: Floats = np.ptp(sums.reshape(-1, n_systems), axis=1)[:trials] / n_users
    return ranges


def _gaps(scores: Floats) -> Floats:
    """The absolute difference of the means of every pair of columns."""
    return np.array([abs(a - b) for a, b in combinations(scores.mean(axis=0), 2)])


def _hedges_g(difference: float, deviation: float, df: int) -> float:
    """J · difference / deviation with J = 1 − 3/(4·df − 1), Hedges' correction for few users."""
    corrected = (1 - 3 / (4 * df - 1)) * difference
    if corrected == 0:
        return 0.0
    return corrected / deviation if deviation > 0 else math.copysign(math.inf, corrected)
