"""Models whose tables are sharded by row: each process holds the vectors of its users and items.

Sharded models are separate classes, so that single-process models contain no distributed code. The
sharded class is defined next to the model, which refers to it by its attribute ``sharded``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densirank.data.share import Share
from densirank.linalg.gather import distinct_rows
from densirank.linalg.routes import Route, fetched
from densirank.models.base import INITIAL_SCALE, Factorisation, Model
from densirank.settings import Settings

DRAWN_ROWS = 1 << 16
"""Rows of a table drawn at a time: a multiple of the block size of the generator."""


class Sharded(Factorisation):
    """A factorisation that holds this process's rows, initialised as in a single process.

    ``users_per_batch`` is the number of users in the global batch.
    """

    def __init__(
        self,
        share: Share,
        settings: Settings,
        generator: torch.Generator,
        users_per_batch: int,
    ) -> None:
        Model.__init__(self)
        self._world, self._users_per_batch = share.world, users_per_batch
        self._n_items = share.own.n_items
        for name, n_rows in (("user_table", share.n_users), ("item_table", self._n_items)):
            drawn = drawn_rows(n_rows, settings.dim, generator, self._world.own(n_rows))
            self.register_parameter(name, nn.Parameter(INITIAL_SCALE * drawn))

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """The vectors of this process's users in the batch, and of any items."""
        user_vectors, item_vectors = self.vectors()
        route = Route(self._world, self._n_items, items)
        return distinct_rows(user_vectors, users), fetched(item_vectors, route)

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        """This process's part of the L2 term: its users in the batch and the candidates it owns."""
        own = self._world.own(self._n_items)
        candidates = items[:n_candidates]
        here = candidates[(candidates >= own.start) & (candidates < own.stop)] - own.start
        user_part = distinct_rows(self.user_table, users).square().sum() / self._users_per_batch
        item_part = distinct_rows(self.item_table, here).square().sum() / len(candidates)
        return (user_part + item_part) / 2


def drawn_rows(n_rows: int, dim: int, generator: torch.Generator, own: range) -> Tensor:
    """This process's rows of ``torch.randn(n_rows, dim)``, without memory for the other rows."""
    kept = []
    start = 0
    while start < n_rows:
        stop = n_rows if n_rows - start < 2 * DRAWN_ROWS else start + DRAWN_ROWS
        block = torch.randn(stop - start, dim, generator=generator)
        kept.append(block[max(own.start - start, 0) : max(own.stop - start, 0)].clone())
        start = stop
    return torch.cat(kept)
