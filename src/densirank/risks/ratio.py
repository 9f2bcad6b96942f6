"""The ranking uLSIF risk of DREGN-CF (Togashi et al. 2021b): a density ratio fitted by squares.

r_u(i) = softplus(f_u(i)) estimates p(i|u, +) / p(i). Every mean below is weighted by r or 1/r,
normalised by its own weights, and the weights are not differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from densirank.dimensions import Range, Space
from densirank.risks.base import RiskSpec, in_blocks
from densirank.risks.positives import Positives
from densirank.risks.weighting import DensitySettings
from densirank.settings import Number, TrainingSettings, setting


@dataclass(frozen=True)
class RatioSettings(TrainingSettings):
    """The density-ratio risk (DREGN-CF)."""

    searched: ClassVar[Space] = {
        **DensitySettings.searched,
        "ratio_bound": Range(10.0, 200.0, log=True),
    }

    ratio_bound: float = setting(70.0, Number(above=0), "Upper bound of the density ratio.")


def ratio_risk(
    user_vectors: Tensor, item_vectors: Tensor, positives: Positives, bound: float
) -> Tensor:
    """−M₁(r) + π_u (M₁(r²) − M₂(r²)) + c + max(0, ½ M_B(r²) − c), c = M₁(r²) / (2 · bound).

    M₁ and M₂ are over the positives, weighted by 1/r and r, M_B over the candidates, weighted by
    r. The maximum keeps the estimate of a square from becoming negative, with c as what the
    positives contribute to it at least while r is below its bound.
    """
    own = softplus(positives.scores(user_vectors, item_vectors))
    every = softplus(user_vectors @ item_vectors[: positives.n_candidates].T)
    weights = own.detach().clamp(min=torch.finfo(own.dtype).tiny ** 0.5)  # 1/r stays finite
    mean, square = positives.mean(own, 1 / weights), positives.mean(own.square(), 1 / weights)
    prior = positives.counts.to(own.dtype) / len(positives.everybodys)
    correction = square / (2 * bound)
    of_candidates = (every.detach() * every.square()).sum(dim=1) / every.detach().sum(dim=1)
    rest = (of_candidates / 2 - correction).clamp(min=0)
    variance = square - positives.mean(own.square(), weights)
    return (-mean + prior * variance + correction + rest).mean()


RATIO = RiskSpec(
    "ratio",
    lambda settings: in_blocks(partial(ratio_risk, bound=settings.ratio_bound)),
    RatioSettings,
)
