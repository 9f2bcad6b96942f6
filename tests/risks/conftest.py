from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import densirank
from densirank.csr import Rows
from densirank.risks import Positives

Owned = NDArray[np.bool_]


@pytest.fixture(scope="session")
def positives_of() -> Callable[..., Positives]:
    """Positives of a matrix (users, items) of who had what; the first items are the candidates."""

    def positives(owned: Owned, n_candidates: int | None = None, seed: int = 0) -> Positives:
        rows = Rows.of(densirank.read(sparse.csr_array(owned)), torch.device("cpu"))
        everything = owned.shape[1] if n_candidates is None else n_candidates
        return Positives(rows.indptr, rows.columns, everything, seed=seed)

    return positives


@pytest.fixture(scope="session")
def random_batch(
    positives_of: Callable[..., Positives],
) -> Callable[..., tuple[Tensor, Tensor, Owned, Positives]]:
    """(user vectors, item vectors, who had what, the same as positives) of any small batch."""

    def batch(
        seed: int = 0,
        n_users: int = 5,
        n_candidates: int = 8,
        n_outside: int = 0,
        dim: int = 4,
        scale: float = 1.0,
        saturated: bool = False,
    ) -> tuple[Tensor, Tensor, Owned, Positives]:
        random = np.random.default_rng(seed)
        n_items = n_candidates + n_outside
        users, items = (
            torch.from_numpy(scale * random.standard_normal((count, dim))).requires_grad_()
            for count in (n_users, n_items)
        )
        owned = random.random((n_users, n_items)) < 0.4
        owned[np.arange(n_users), random.integers(n_items, size=n_users)] = True
        if saturated:
            owned[0, :n_candidates] = True
        return users, items, owned, positives_of(owned, n_candidates, seed)

    return batch


class LargestTensor(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers how many numbers the largest tensor has that any operation gave."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                held = tensor.numel() if tensor.layout == torch.strided else tensor._nnz()
                self.numbers = max(self.numbers, held)
        return result


@pytest.fixture(scope="session")
def largest_tensor() -> type[LargestTensor]:
    return LargestTensor
