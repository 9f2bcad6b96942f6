"""What the ranking path asks of a fitted model: the scores of a block of users over all items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from densirank.linalg.csr import PartSource, SparsePart

TILE = 1 << 19
"""Products that a CPU makes at once: about what its caches hold, and no fewer, as a call has its
cost."""

USERS_AT_ONCE = 256
"""Users whose sparse parts are made together: a part may have an entry for every item."""


class Scorer(Protocol):
    """Anything that scores the whole catalogue for some users."""

    @property
    def n_users(self) -> int: ...

    @property
    def n_items(self) -> int: ...

    @property
    def device(self) -> torch.device: ...

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """f_u(i), (len(users), n_items), in ``out`` or else a tensor of the caller's own."""
        ...


def _products(users: Tensor, items: Tensor, scores: Tensor, *, added: bool) -> None:
    """Write or add all dot products; on a CPU a tile at a time, while it is in cache."""
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
    """f_u(i) = e_u · e_i and, where a method has one, a sparse part for each user besides."""

    user_vectors: Tensor  # (users, dim)
    item_vectors: Tensor  # (items, dim)
    sparse_part: PartSource | None = None
    neighbours: SparsePart | None = None  # of each item, where angles between vectors say nothing

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
        """The sparse part as a table, where it cannot be computed on demand."""
        part = self.sparse_part
        if part is None:
            return None
        everyone = torch.arange(self.n_users, device=self.device)
        return SparsePart.joined(part.kept(users) for users in torch.split(everyone, USERS_AT_ONCE))

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        scores = self.user_vectors.new_empty(len(users), self.n_items) if out is None else out
        if self.sparse_part is not None:
            self.sparse_part.write(scores, users)
        added = self.sparse_part is not None
        _products(self.user_vectors[users], self.item_vectors, scores, added=added)
        return scores
