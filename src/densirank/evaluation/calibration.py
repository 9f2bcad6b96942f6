"""Fits the temperature and the popularity exponent to held-out items by maximum likelihood.

With a = 1/T, the mean log-likelihood of the held-out items (each a draw from p(i|u) over the unseen
items of its user) is concave in (a, β). Its gradient is the held-out mean of (f, log popularity)
minus the mean under the model, and its Hessian is minus the covariance of the two under the model,
so Newton's method finds the maximum in a few passes over the users. It starts from a = β = 0, where
no density is so sharp that its covariance is lost in rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.errors import InputError, TrainingError
from densirank.evaluation.held_out import Draws
from densirank.ranking.blocks import score_blocks
from densirank.scores import Calibration, Scorer

Floats = NDArray[np.float64]

MAX_USERS = 1_000
"""Held-out users that are used; of more, a fixed random sample. A few thousand items determine T up
to about 1 %, which costs 10^-4 nats per item."""

CPU_BLOCK_BYTES = 16 << 20
"""Memory of a block of users on a CPU: small enough for the caches."""

MAX_STEPS = 60
TOLERANCE = 1e-6
"""Nats per held-out item; a step with a smaller predicted gain ends the search."""


@dataclass(frozen=True)
class Likelihood:
    """The mean log-likelihood of a held-out item at some (a, β)."""

    value: float
    slope: Floats  # (2,)
    curvature: Floats  # (2, 2) minus the Hessian: a covariance


def fit_calibration(
    scorer: Scorer,
    draws: Draws,
    log_popularity: Tensor,
    *,
    popularity: bool,
    log_base: Tensor | None = None,
) -> Calibration:
    """The calibration of maximum likelihood; β = 0 without ``popularity``."""

    def at(point: Floats) -> Likelihood:
        return likelihood(scorer, draws, log_popularity, *_both(point), log_base)

    point, best = maximum(at, 2 if popularity else 1)
    sharpness, exponent = _both(point)
    if sharpness <= 0:
        raise InputError("no temperature fits: the scores do not rank held-out items above others")
    return Calibration(
        temperature=1 / sharpness,
        popularity_exponent=exponent,
        held_out_items=int(draws.items.counts[draws.users].sum()),
        gain=best - at(np.array([1.0])).value,
    )


def _both(point: Floats) -> tuple[float, float]:
    """(a, β) of a point with one or two coordinates."""
    return float(point[0]), float(point[1]) if len(point) > 1 else 0.0


def likelihood(
    scorer: Scorer,
    draws: Draws,
    log_popularity: Tensor,
    sharpness: float,
    exponent: float,
    log_base: Tensor | None = None,
) -> Likelihood:
    """The mean log-likelihood of the draws, p(i|u) ∝ p0(i) · exp(sharpness · f + exponent · g).

    f is the scores, g the log-popularity, and log p0 is fixed (None: uniform).
    """
    total, slope, curvature = 0.0, np.zeros(2), np.zeros((2, 2))
    g = log_popularity - log_popularity.mean()
    budget = CPU_BLOCK_BYTES if scorer.device.type == "cpu" else None
    for users, f in score_blocks(scorer, draws.users, seen=draws.seen, budget_bytes=budget):
        own = draws.items.take(users)
        counts = own.counts.double()
        barred = torch.isneginf(f)
        f.masked_fill_(barred, 0)
        fixed = g * exponent if log_base is None else g * exponent + log_base
        logits = (f * sharpness).add_(fixed).masked_fill_(barred, -torch.inf)
        log_p = logits.log_softmax(dim=1)
        del logits
        total += float(log_p[own.row_of_entry, own.columns].double().sum())
        p = log_p.exp_()
        mean_f, mean_g = torch.linalg.vecdot(p, f), p @ g
        slope += [
            float(f[own.row_of_entry, own.columns].double().sum() - counts @ mean_f.double()),
            float(g[own.columns].double().sum() - counts @ mean_g.double()),
        ]
        variance_g = p @ g**2 - mean_g**2
        centred = f.sub_(mean_f.unsqueeze(1))
        weighted = p.mul_(centred)
        ff = float(counts @ torch.linalg.vecdot(weighted, centred).double())
        fg = float(counts @ (weighted @ g).double())
        gg = float(counts @ variance_g.double())
        curvature += [[ff, fg], [fg, gg]]
    n = int(draws.items.counts[draws.users].sum())
    return Likelihood(total / n, slope / n, curvature / n)


def maximum(concave: Callable[[Floats], Likelihood], size: int) -> tuple[Floats, float]:
    """(the maximiser of a concave function, its value), by Newton steps from zero.

    A step that overshoots is halved. Directions in which the function is flat are ignored: scores
    may be a multiple of the log-popularity.
    """
    point = np.zeros(size)
    here = concave(point)
    for _ in range(MAX_STEPS):
        slope, curvature = here.slope[:size], here.curvature[:size, :size]
        units = np.sqrt(np.diag(curvature))
        units[units == 0] = 1.0
        inverse = np.linalg.pinv(curvature / np.outer(units, units), rcond=1e-5, hermitian=True)
        step = inverse @ (slope / units) / units
        if slope @ step < TOLERANCE:
            return point + step, here.value
        there = concave(point + step)
        while there.value < here.value and slope @ step >= TOLERANCE:
            step = step / 2
            there = concave(point + step)
        point, here = point + step, there
    raise TrainingError(f"the held-out likelihood did not converge in {MAX_STEPS} steps")
