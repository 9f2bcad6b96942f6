"""Models whose tables are split by row: every process has the vectors of its users and items."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from densirank.distributed.group import World
from densirank.distributed.propagation import SplitPropagation
from densirank.distributed.routes import Route, fetched
from densirank.distributed.shares import Share
from densirank.linalg.gather import distinct_rows
from densirank.linalg.propagation import inverse_root_degrees
from densirank.models.base import INITIAL_SCALE, Factorisation, Model
from densirank.models.lightgcn import LightGCN
from densirank.models.mf import MatrixFactorisation
from densirank.settings import Settings

DRAWN_ROWS = 1 << 16
"""Rows of a table that are drawn at a time: a multiple of what the generator draws at once."""


class Split(Factorisation):
    """A factorisation of which this process has its rows; they start as one process's would.

    ``users_per_batch`` is how many there are in all processes' parts of a batch together.
    """

    def __init__(
        self,
        world: World,
        share: Share,
        settings: Settings,
        generator: torch.Generator,
        users_per_batch: int,
    ) -> None:
        Model.__init__(self)
        self._world, self._users_per_batch = world, users_per_batch
        self.n_rows = {"user_table": share.n_users, "item_table": share.own.n_items}
        for name, n_rows in self.n_rows.items():
            drawn = drawn_rows(n_rows, settings.dim, generator, world.own(n_rows))
            self.register_parameter(name, nn.Parameter(INITIAL_SCALE * drawn))

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """The vectors of this process's users of the batch, and of any items."""
        user_vectors, item_vectors = self.vectors()
        route = Route(self._world, self.n_rows["item_table"], items)
        return distinct_rows(user_vectors, users), fetched(item_vectors, route)

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        """This process's part of the L2 term: its users of the batch, and the candidates it has."""
        own = self._world.own(self.n_rows["item_table"])
        candidates = items[:n_candidates]
        here = candidates[(candidates >= own.start) & (candidates < own.stop)] - own.start
        user_part = distinct_rows(self.user_table, users).square().sum() / self._users_per_batch
        item_part = distinct_rows(self.item_table, here).square().sum() / len(candidates)
        return (user_part + item_part) / 2


class SplitMatrixFactorisation(Split, MatrixFactorisation):
    """Matrix factorisation, split."""


class SplitLightGCN(Split, LightGCN):
    """LightGCN, split."""

    def __init__(
        self,
        world: World,
        share: Share,
        settings: Settings,
        generator: torch.Generator,
        users_per_batch: int,
    ) -> None:
        super().__init__(world, share, settings, generator, users_per_batch)
        self.final_layers = settings.final_layers
        self.propagation = SplitPropagation(world, share, settings.layers)
        own = world.own(share.own.n_items)
        scale = inverse_root_degrees(share.item_counts[own.start : own.stop])
        self.register_buffer("item_scale", torch.from_numpy(scale).float(), persistent=False)


def drawn_rows(n_rows: int, dim: int, generator: torch.Generator, own: range) -> Tensor:
    """The own rows of ``torch.randn(n_rows, dim)``, without the memory for the others."""
    kept = []
    start = 0
    while start < n_rows:
        stop = n_rows if n_rows - start < 2 * DRAWN_ROWS else start + DRAWN_ROWS
        block = torch.randn(stop - start, dim, generator=generator)
        kept.append(block[max(own.start - start, 0) : max(own.stop - start, 0)].clone())
        start = stop
    return torch.cat(kept)


SPLIT = {"mf": SplitMatrixFactorisation, "lightgcn": SplitLightGCN}
"""The models that have a split form, under the names that methods call them by."""
