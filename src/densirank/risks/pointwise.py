"""The whole-data squared risk of ENMF (Chen et al. 2020): every pair counts, none is sampled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from densirank.dimensions import Range, Space
from densirank.risks.base import RiskSpec
from densirank.risks.positives import Positives
from densirank.settings import Number, TrainingSettings, setting


@dataclass(frozen=True)
class SquaredSettings(TrainingSettings):
    """The squared risk (ENMF)."""

    searched: ClassVar[Space] = {"unobserved_weight": Range(1e-3, 0.5, log=True)}

    unobserved_weight: float = setting(
        0.02,
        Number(above=0, at_most=1),
        "Weight w of an unobserved pair; an observed one has 1.",
    )


def squared_risk(
    user_vectors: Tensor, item_vectors: Tensor, positives: Positives, unobserved_weight: float
) -> Tensor:
    """w Σ_{I_B ∖ I_u⁺} f² + Σ_{I_u⁺} (f² − 2 f), the mean over users.

    It is Σ c (y − f)² over all pairs up to a constant, c being 1 where y = 1 and w where y = 0. The
    sum over all candidates is a quadratic form of their d × d moments, e_uᵀ (Σ e_i e_iᵀ) e_u, of
    which the positives' part is taken off again: nothing of size users × candidates exists.
    """
    candidates = item_vectors[: positives.n_candidates]
    moments = candidates.T @ candidates  # (dim, dim)
    everything = ((user_vectors @ moments) * user_vectors).sum()
    scores = positives.scores(user_vectors, item_vectors)
    squares = scores.square()
    unobserved = everything - (squares * (positives.columns < positives.n_candidates)).sum()
    return (unobserved_weight * unobserved + (squares - 2 * scores).sum()) / len(positives)


SQUARED = RiskSpec(
    "squared",
    lambda settings: partial(squared_risk, unobserved_weight=settings.unobserved_weight),
    SquaredSettings,
)
