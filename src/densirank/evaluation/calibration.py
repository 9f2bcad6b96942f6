"""The temperature and the popularity exponent under which held-out items are likeliest.

With a = 1/T, the mean log-likelihood of the held-out items (each a draw from p(i|u) over what its
user has not had) is concave in (a, β). Its slope is the held-out mean of (f, log popularity) minus
the model's, and its curvature is minus the model's covariance of the two, so Newton's method finds
the maximum in a few passes over the users. It starts from a = β = 0, where no density is so sharp
that its covariance is lost in rounding.
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
from densirank.ranking.calibration import Calibration
from densirank.scores import Scorer

Floats = NDArray[np.float64]

MOST_USERS = 1_000
"""Held-out users whose items are looked at; of more, a fixed random sample. Some thousand items
leave an uncertainty of about one in a hundred in T, which costs an item 10^-4 nats."""

CPU_BLOCK_BYTES = 16 << 20
"""Memory of a block of users on a CPU: what is made of its scores stays in the caches."""

MOST_STEPS = 60
TOLERANCE = 1e-6
"""Nats of a held-out item that a step must still promise to be taken."""


@dataclass(frozen=True)
class Likelihood:
    """The mean log-likelihood of a held-out item at one (a, β)."""

    value: float
    slope: Floats  # (2,)
    curvature: Floats  # (2, 2) of the negative: a covariance


def fit_calibration(
    scorer: Scorer, draws: Draws, log_popularity: Tensor, *, popularity: bool
) -> Calibration:
    """The calibration of a scorer that makes the draws likeliest; β is 0 unless it is asked for."""

    def at(point: Floats) -> Likelihood:
        return likelihood(scorer, draws, log_popularity, *_both(point))

    point, best = maximum(at, 2 if popularity else 1)
    sharpness, exponent = _both(point)
    if sharpness <= 0:
        raise InputError(
            "no temperature fits: the scores do not favour the held-out items over others"
        )
    return Calibration(
        temperature=1 / sharpness,
        popularity_exponent=exponent,
        held_out_items=int(draws.items.counts[draws.users].sum()),
        gain=best - at(np.array([1.0])).value,
    )


def _both(point: Floats) -> tuple[float, float]:
    """(a, β) of a point in one dimension or two."""
    return float(point[0]), float(point[1]) if len(point) > 1 else 0.0


def likelihood(
    scorer: Scorer, draws: Draws, log_popularity: Tensor, sharpness: float, exponent: float
) -> Likelihood:
    """The mean log-likelihood of the draws, p(i|u) ∝ exp(sharpness · f + exponent · g).

    f is the scores and g the log-popularity.
    """
    total, slope, curvature = 0.0, np.zeros(2), np.zeros((2, 2))
    g = log_popularity - log_popularity.mean()
    budget = CPU_BLOCK_BYTES if scorer.device.type == "cpu" else None
    for users, f in score_blocks(scorer, draws.users, seen=draws.seen, budget_bytes=budget):
        own = draws.items.take(users)
        counts = own.counts.double()
        barred = torch.isneginf(f)
        f.masked_fill_(barred, 0)
        logits = (f * sharpness).add_(g * exponent).masked_fill_(barred, -torch.inf)
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
    """(where a concave function is highest, its value there), by Newton steps from zero.

    A step that overshoots is halved. Directions in which the function is flat, as where scores
    and log-popularity are the same thing, are left alone.
    """
    point = np.zeros(size)
    here = concave(point)
    for _ in range(MOST_STEPS):
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
    raise TrainingError(f"no maximum of the held-out likelihood was found in {MOST_STEPS} steps")
