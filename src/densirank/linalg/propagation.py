"""The user–item graph as a linear operator: vectors smoothed over K layers of neighbours.

P = (I + Â + … + Â^K) / (K + 1) with Â = D^-½ A D^-½ (He et al. 2020). P is symmetric, so the
backward pass applies the same propagation and no activations are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.share import Share
from densirank.data.vocabulary import Vocabulary
from densirank.linalg.csr import sparse_matrix
from densirank.linalg.routes import Route

_ROWS = 1 << 14  # of the graph that are scaled at a time


Operator = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""P, however it is computed: (user vectors, item vectors) → the same, propagated."""


class Propagation:
    """The operator P of a user–item graph, as two sparse matrices (one for each direction).

    With self-loops, every node is also a neighbour of itself: Â = D^-½ (A + I) D^-½, where D are
    the degrees including the loops.
    """

    def __init__(
        self,
        data: Interactions,
        layers: int,
        dtype: torch.dtype = torch.float32,
        self_loops: bool = False,
        item_counts: NDArray[np.int64] | None = None,
    ) -> None:
        """``item_counts`` must be the counts over all users if the data hold only some of them."""
        self.layers = layers
        self.self_loops = self_loops
        counts = data.item_counts if item_counts is None else item_counts
        user_scale = inverse_root_degrees(data.user_counts + self_loops)
        item_scale = inverse_root_degrees(counts + self_loops)
        self._user_loops = torch.from_numpy(user_scale**2).to(dtype).unsqueeze(1)
        self._item_loops = torch.from_numpy(item_scale**2).to(dtype).unsqueeze(1)
        self.to_users = _scaled(data.indptr, data.items, user_scale, item_scale, dtype)
        self.to_items = _scaled(*data.by_item(), item_scale, user_scale, dtype)

    def to(self, device: torch.device) -> None:
        """Move the graph to a device."""
        self.to_users = self.to_users.to(device)
        self.to_items = self.to_items.to(device)
        self._user_loops = self._user_loops.to(device)
        self._item_loops = self._item_loops.to(device)

    def edges(self) -> tuple[Tensor, Tensor]:
        """(indptr, columns) of A, the graph of all nodes, users first, in both directions."""
        n_users, n_edges = len(self.to_users), self.to_users.values().numel()
        wide = torch.int64 if 2 * n_edges >= 2**31 else torch.int32
        indptr = torch.cat(
            [
                self.to_users.crow_indices().to(wide),
                self.to_items.crow_indices()[1:].to(wide) + n_edges,
            ]
        )
        columns = [self.to_users.col_indices() + n_users, self.to_items.col_indices()]
        return indptr, torch.cat(columns)

    def __call__(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P applied to (user vectors, item vectors), by Horner's rule: x + Â(x + Â(x + …))."""
        user_sum, item_sum = users, items
        for _ in range(self.layers):
            user_base, item_base = users, items
            if self.self_loops:
                user_base = torch.addcmul(users, self._user_loops, user_sum)
                item_base = torch.addcmul(items, self._item_loops, item_sum)
            user_sum, item_sum = (
                torch.addmm(user_base, self.to_users, item_sum),
                torch.addmm(item_base, self.to_items, user_sum),
            )
        share = 1 / (self.layers + 1)
        return user_sum * share, item_sum * share

    def hop(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """One layer: the sums over neighbours by Â, without self-loops."""
        return self.to_users @ items, self.to_items @ users


class ShardedPropagation(Propagation):
    """P over the whole graph: (own user vectors, own item vectors) → the same, propagated.

    Users and their edges are divided over the processes. A layer sends item vectors only: each
    process fetches the vectors of its users' items, which are all that its users' sums need, and
    returns its users' contribution to the items' sums. User vectors and edges never leave their
    process.

    The alternative is to split by dimension, so that every process propagates d/N numbers of every
    vector and a step sends vectors only before and after the propagation. On Gowalla (K = 3,
    d = 64, batches of 2,500 users) a process sends 7 MB per step by dimension and 69 MB by rows
    with two processes, and 13 and 95 MB with eight. But by dimension every process reads the whole
    log and holds the whole graph, 16 bytes per pair, which is the first thing to exceed the memory
    of a machine; and whitening and clipping, which need whole vectors, send what propagation does
    not. By rows, a process holds 1/N of everything and what it sends depends on its items only.

    It is a separate class because a single process would copy the fetched rows needlessly.
    """

    def __init__(self, share: Share, layers: int) -> None:
        near = np.flatnonzero(share.own.item_counts)
        super().__init__(_of_items(share.own, near), layers, item_counts=share.item_counts[near])
        world = share.world
        self._route = Route(world, share.own.n_items, torch.from_numpy(near).to(world.device))

    def __call__(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P applied to the vectors of all processes, by Horner's rule."""
        user_sum, item_sum = users, items
        for _ in range(self.layers):
            near = self._route.fetch(item_sum)
            user_sum, item_sum = (
                torch.addmm(users, self.to_users, near),
                items + self._route.bring_back(self.to_items @ user_sum),
            )
        return user_sum / (self.layers + 1), item_sum / (self.layers + 1)


def _of_items(data: Interactions, items: NDArray[np.intp]) -> Interactions:
    """The same pairs with the items renumbered from 0; ``items`` are all items that occur."""
    number = np.zeros(data.n_items, dtype=np.int32)
    number[items] = np.arange(len(items), dtype=np.int32)
    item_ids = Vocabulary.from_sorted(data.item_ids.ids[items])
    return replace(data, items=number[data.items], item_ids=item_ids)


def self_adjoint(operator: Operator, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
    """Apply a symmetric operator, which is also its own backward pass."""
    user_vectors, item_vectors = _SelfAdjoint.apply(  # type: ignore[no-untyped-call]
        users, items, operator
    )
    return user_vectors, item_vectors


class _SelfAdjoint(torch.autograd.Function):
    """Forward and backward are the same symmetric operator."""

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, items: Tensor, propagation: Operator
    ) -> tuple[Tensor, Tensor]:
        ctx.propagation = propagation
        return propagation(users, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return *ctx.propagation(*grads), None


def inverse_root_degrees(degrees: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
    """degree^-½, and 0 for a node without neighbours."""
    return np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0.0)


def _scaled(
    indptr: np.ndarray[Any, np.dtype[np.int64]],
    columns: np.ndarray[Any, np.dtype[np.int32]],
    row_scale: np.ndarray[Any, Any],
    column_scale: np.ndarray[Any, Any],
    dtype: torch.dtype,
) -> Tensor:
    """The sparse CSR tensor with the product of both scales at every pair.

    Indices are 32-bit if possible, which halves the bytes to read. The products are computed for a
    block of rows at a time, so that no float64 array is as long as the pairs.
    """
    values = torch.empty(len(columns), dtype=dtype)
    for start in range(0, len(row_scale), _ROWS):
        bounds = indptr[start : start + _ROWS + 1]
        pairs = slice(bounds[0], bounds[-1])
        of_rows = np.repeat(row_scale[start : start + _ROWS], np.diff(bounds))
        values.numpy()[pairs] = of_rows * column_scale[columns[pairs]]
    index_type = np.int32 if len(columns) < 2**31 else np.int64
    return sparse_matrix(
        torch.from_numpy(indptr.astype(index_type)),
        torch.from_numpy(np.require(columns, index_type, "W")),  # copies only if necessary
        values,
        (len(row_scale), len(column_scale)),
    )
