"""LightGCN (He et al. 2020): vectors smoothed over the graph of who had what.

The final vectors are linear in the trainable first layer, E = P E⁽¹⁾ with
P = (I + Â + … + Â^K) / (K + 1) and Â = D^-½ A D^-½. P is symmetric, so the gradient is carried
back by the very same propagation and nothing of the way forward needs to be kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from densirank.csr import sparse_matrix
from densirank.data.interactions import Interactions
from densirank.models.base import Factorisation


class Propagation:
    """The operator P over a users–items graph, as two sparse matrices (one for each direction)."""

    def __init__(self, data: Interactions, layers: int, dtype: torch.dtype = torch.float32) -> None:
        self.layers = layers
        user_scale = _inverse_root(data.user_counts)
        item_scale = _inverse_root(data.item_counts)
        item_indptr, users_by_item = data.by_item()
        items_of_entries = np.repeat(np.arange(data.n_items), data.item_counts)
        self.to_users = _csr_tensor(
            data.indptr,
            data.items,
            user_scale[data.users] * item_scale[data.items],
            (data.n_users, data.n_items),
            dtype,
        )
        self.to_items = _csr_tensor(
            item_indptr,
            users_by_item,
            user_scale[users_by_item] * item_scale[items_of_entries],
            (data.n_items, data.n_users),
            dtype,
        )

    def to(self, device: torch.device) -> None:
        """Move the graph to where the vectors are."""
        self.to_users = self.to_users.to(device)
        self.to_items = self.to_items.to(device)

    def __call__(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """P applied to (user vectors, item vectors), by Horner's rule: x + Â(x + Â(x + …))."""
        user_sum, item_sum = users, items
        for _ in range(self.layers):
            user_sum, item_sum = (
                torch.addmm(users, self.to_users, item_sum),
                torch.addmm(items, self.to_items, user_sum),
            )
        share = 1 / (self.layers + 1)
        return user_sum * share, item_sum * share


class LightGCN(Factorisation):
    """f_u(i) = e_u · e_i with the first-layer vectors averaged over K layers of neighbours."""

    def __init__(
        self, data: Interactions, layers: int, dim: int, generator: torch.Generator
    ) -> None:
        super().__init__(data.n_users, data.n_items, dim, generator)
        self.propagation = Propagation(data, layers)

    def vectors(self) -> tuple[Tensor, Tensor]:
        self.propagation.to(self.user_table.device)
        users, items = _SelfAdjoint.apply(  # type: ignore[no-untyped-call]
            self.user_table, self.item_table, self.propagation
        )
        return users, items


class _SelfAdjoint(torch.autograd.Function):
    """Forward and backward are the same symmetric operator."""

    @staticmethod
    def forward(
        ctx: Any, users: Tensor, items: Tensor, propagation: Propagation
    ) -> tuple[Tensor, Tensor]:
        ctx.propagation = propagation
        return propagation(users, items)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return *ctx.propagation(*grads), None


def _inverse_root(degrees: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
    """degree^-½, and 0 for a node without neighbours."""
    return np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0.0)


def _csr_tensor(
    indptr: np.ndarray[Any, Any],
    indices: np.ndarray[Any, Any],
    values: np.ndarray[Any, Any],
    size: tuple[int, int],
    dtype: torch.dtype,
) -> Tensor:
    """A sparse CSR tensor with 32-bit indices where they suffice: half the bytes to read."""
    index_type = np.int32 if len(indices) < 2**31 else np.int64
    return sparse_matrix(
        torch.from_numpy(indptr.astype(index_type)),
        torch.from_numpy(indices.astype(index_type)),
        torch.from_numpy(values).to(dtype),
        size,
    )
