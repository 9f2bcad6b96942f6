"""Scores of a block of users over all items, and the logits of p(i|u).

A risk fixes the order of the scores better than their scale. Calibration corrects the scale:

    p(i|u) ∝ popularity(i)^β · exp(f_u(i) / T).

The temperature T sets the scale (Guo et al. 2017). The base density p0 ∝ popularity^β returns to
popular items the probability that a risk with sampled candidates took from them, or the reverse.
Lists are always ordered by f_u(i): calibration changes probabilities and no list, so lists, their
evaluation and an index of the vectors agree with and without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from densirank.linalg.csr import PartSource, SparsePart

TILE = 1 << 19
"""Products that a CPU computes per call: as many as its caches hold, since each call has a cost."""

USERS_AT_ONCE = 256
"""Users whose sparse parts are made together: a part may have an entry for every item."""


class Scorer(Protocol):
    """Scores the whole catalogue for some users."""

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """f_u(i), (len(users), n_items), in ``out`` or else in a new tensor."""
        ...


def _products(users: Tensor, items: Tensor, scores: Tensor, *, added: bool) -> None:
    """Write or add all dot products; on a CPU one tile at a time, while it is in cache."""
    tile = max(1, TILE // max(1, len(users))) if scores.device.type == "cpu" else len(items)
    for part, some in zip(torch.split(scores, tile, dim=1), torch.split(items, tile), strict=True):
        if added:
            part += users @ some.T
        else:
            torch.mm(users, some.T, out=part)


def score_spreads(user_vectors: Tensor, item_vectors: Tensor) -> Tensor:
    """σ_u(f), the standard deviation of each user's dot products over all items.

    It is √(e_uᵀ C e_u), C being the items' covariance.
    """
    centred = item_vectors - item_vectors.mean(dim=0)
    covariance = centred.T @ centred / len(item_vectors)
    return ((user_vectors @ covariance) * user_vectors).sum(dim=1).clamp(min=0).sqrt()


@dataclass(frozen=True)
class VectorScorer:
    """f_u(i) = e_u · e_i, plus a sparse part for each user where a method has one."""

    user_vectors: Tensor  # (users, dim)
    item_vectors: Tensor  # (items, dim)
    sparse_part: PartSource | None = None
    neighbours: SparsePart | None = None  # of each item, if the vectors do not say

    @property
    def n_users(self) -> int:
        return len(self.user_vectors)

    @property
    def n_items(self) -> int:
        return len(self.item_vectors)

    @property
    def device(self) -> torch.device:
        return self.user_vectors.device

    def kept_part(self) -> SparsePart | None:
        """The sparse part as a table for other systems, which cannot compute it."""
        if self.sparse_part is None:
            return None
        users = torch.split(torch.arange(self.n_users, device=self.device), USERS_AT_ONCE)
        return SparsePart.joined(self.sparse_part.kept(block) for block in users)

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        scores = self.user_vectors.new_empty(len(users), self.n_items) if out is None else out
        if self.sparse_part is not None:
            self.sparse_part.write(scores, users)
        added = self.sparse_part is not None
        _products(self.user_vectors[users], self.item_vectors, scores, added=added)
        return scores


@dataclass(frozen=True)
class Calibration:
    """The temperature T and the popularity exponent β of p(i|u), and how they were fitted.

    The popularity of an item is 1 + its number of users in training.
    """

    temperature: float = 1.0
    popularity_exponent: float = 0.0
    held_out_items: int = 0  # that the two were fitted to
    gain: float = 0.0  # nats per held-out item over T = 1, β = 0

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"temperature must be finite and above 0, not {self.temperature}")


@dataclass(frozen=True)
class CalibratedScorer:
    """A scorer of logits log p0(i) + f_u(i) / T + β log popularity(i), whose softmax is p(i|u)."""

    scorer: Scorer
    calibration: Calibration
    item_counts: Tensor  # (items,) users of each item in training
    log_base: Tensor | None = None  # (items,) log p0 up to a constant; None: uniform

    @cached_property
    def log_popularity(self) -> Tensor:
        """log(1 + users), (items,)."""
        return torch.log1p(self.item_counts.to(self.device, torch.float32))

    @property
    def n_users(self) -> int:
        return self.scorer.n_users

    @property
    def n_items(self) -> int:
        return self.scorer.n_items

    @property
    def device(self) -> torch.device:
        return self.scorer.device

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        scores = self.scorer.scores(users, out)
        return self.logits(scores, out=scores)

    def logits(
        self, scores: Tensor, items: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """The logits of scores f of all items, or of these; the scores themselves by default.

        >>> calibration = Calibration(temperature=2.0, popularity_exponent=1.0)
        >>> scorer = VectorScorer(torch.empty(0, 1), torch.ones(2, 1))
        >>> density = CalibratedScorer(scorer, calibration, torch.tensor([0, 9]))
        >>> density.logits(torch.tensor([[4.0, 6.0]]))   # 4 / 2 and 6 / 2 + log 10
        tensor([[2.0000, 5.3026]])
        """
        logits = scores
        if self.calibration.temperature != 1:
            logits = torch.div(logits, self.calibration.temperature, out=out)
        if self.calibration.popularity_exponent != 0:
            popular = self.log_popularity if items is None else self.log_popularity[items]
            logits = torch.add(logits, self.calibration.popularity_exponent * popular, out=out)
        if self.log_base is not None:
            base = self.log_base if items is None else self.log_base[items]
            logits = torch.add(logits, base, out=out)
        return logits
