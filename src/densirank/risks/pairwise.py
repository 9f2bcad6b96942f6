"""The pairwise risk, Section 4.3: a positive should score higher than a negative that was drawn.

R_pair = Ê₊ E_{i'∼Q_u}[s(f_u(i') − f_u(i))] with s the softplus (Rendle et al. 2009), the mean over
the batch's users. What Q_u is, is the sampler's business: each draws for every user some items of
the batch and says which of them count, since an item the user has had is no negative. A user for
whom none counts adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from densirank.dimensions import Choices, Range, Space
from densirank.risks.base import Risk, RiskSpec, in_blocks
from densirank.risks.positives import Positives
from densirank.settings import TrainingSettings, Whole, setting

Sampler = Callable[[Tensor, Tensor, Positives, int, torch.Generator], tuple[Tensor, Tensor]]
"""(user vectors, item vectors, positives, count, chance) → (items drawn, whether they count)."""

DYNAMIC_POOL = 10
"""Items that dynamic sampling draws to keep the highest of them."""


def pairwise_risk(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    sampler: Sampler,
    negatives: int,
) -> Tensor:
    """R_pair of the batch, every positive of a user against every negative drawn for them."""
    chance = torch.Generator(user_vectors.device).manual_seed(positives.seed)
    with torch.no_grad():
        drawn, counts = sampler(user_vectors, item_vectors, positives, negatives, chance)
    negative_scores = _scores(user_vectors, item_vectors, drawn)  # (users, negatives)
    positive_scores = positives.scores(user_vectors, item_vectors)
    rows = positives.row_of_entry
    against = negative_scores.index_select(0, rows)
    losses = softplus(against - positive_scores.unsqueeze(1))  # (entries, negatives)
    weights = counts.to(losses.dtype)
    weights /= weights.sum(dim=1, keepdim=True).clamp(min=1)
    return positives.mean((losses * weights[rows]).sum(dim=1)).mean()


def uniform(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    count: int,
    chance: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Any candidate, all alike."""
    size = (len(positives), count)
    drawn = torch.randint(
        int(positives.n_candidates), size, generator=chance, device=user_vectors.device
    )
    return drawn, ~positives.are_own(drawn)


def popular(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    count: int,
    chance: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Somebody's positive: an item comes as often as it is had in the batch."""
    size = (len(positives), count)
    everybodys = positives.everybodys
    entries = torch.randint(len(everybodys), size, generator=chance, device=user_vectors.device)
    drawn = everybodys[entries]
    return drawn, ~positives.are_own(drawn)


def dynamic(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    count: int,
    chance: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The highest-scored of a few uniform ones (DNS, Zhang et al. 2013)."""
    pool, allowed = uniform(user_vectors, item_vectors, positives, count * DYNAMIC_POOL, chance)
    scores = _scores(user_vectors, item_vectors, pool).masked_fill(~allowed, -torch.inf)
    best = scores.view(-1, count, DYNAMIC_POOL).max(dim=2)
    drawn = pool.view(-1, count, DYNAMIC_POOL).gather(2, best.indices.unsqueeze(2))
    return drawn.squeeze(2), best.values > -torch.inf


def adaptive(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    count: int,
    chance: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Unobserved candidates by their probability under the ranker itself, p_f (ANS, Section 5.3).

    By inversion: a uniform number falls into a candidate's share of the cumulated probability.
    """
    scores = user_vectors @ item_vectors[: positives.n_candidates].T  # (users, candidates)
    scores[positives.among_candidates()] = -torch.inf
    top = scores.amax(dim=1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    cumulated = scores.sub_(top).exp_().cumsum(dim=1)
    numbers = torch.rand(len(scores), count, generator=chance, device=scores.device)
    drawn = torch.searchsorted(cumulated, numbers * cumulated[:, -1:], right=True)
    drawn.clamp_(max=scores.shape[1] - 1)  # an own item where nothing else is left
    return drawn, ~positives.are_own(drawn)


SAMPLERS: Mapping[str, Sampler] = {
    "uniform": uniform,
    "popular": popular,
    "dynamic": dynamic,
    "adaptive": adaptive,
}


@dataclass(frozen=True)
class PairwiseSettings(TrainingSettings):
    """Pairwise risks."""

    searched: ClassVar[Space] = {
        "l2": Range(1e-4, 1.0, log=True, points=(1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3)),
        "negatives": Choices((5, 20, 100)),
    }

    negatives: int = setting(5, Whole(1), "Items that are drawn for each user of a batch.")


def _spec(name: str, sampler: Sampler) -> RiskSpec:
    def make(settings: PairwiseSettings) -> Risk:
        return in_blocks(partial(pairwise_risk, sampler=sampler, negatives=settings.negatives))

    return RiskSpec(f"pairwise-{name}", make, PairwiseSettings)


PAIRWISE: Mapping[str, RiskSpec] = {name: _spec(name, own) for name, own in SAMPLERS.items()}
"""The pairwise risk with each sampler."""


def _scores(user_vectors: Tensor, item_vectors: Tensor, items: Tensor) -> Tensor:
    """f_u(i) of items (users, count) that stand in the rows of their users."""
    wanted = item_vectors.index_select(0, items.flatten())
    vectors = wanted.view(*items.shape, item_vectors.shape[1])
    return torch.einsum("ud,ucd->uc", user_vectors, vectors)
