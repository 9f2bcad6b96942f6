from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import densirank
from densirank.linalg.csr import Rows
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


class Case(Protocol):
    """What a batch may look like; a test file adds what its vectors are."""

    @property
    def n_users(self) -> int: ...
    @property
    def n_candidates(self) -> int: ...
    @property
    def n_outside(self) -> int: ...  # items behind the candidates
    @property
    def owned_share(self) -> float: ...
    @property
    def owned_by_first(self) -> int: ...  # so many candidates, the first ones
    @property
    def general(self) -> bool: ...  # with weights and a base density
    @property
    def seed(self) -> int: ...


@pytest.fixture(scope="session")
def positives_in(positives_of: Callable[..., Positives]) -> Callable[[Case], Positives]:
    """The positives of a case, drawn from its seed."""

    def positives(case: Case) -> Positives:
        random = np.random.default_rng(case.seed)
        n_items = case.n_candidates + case.n_outside
        owned = random.random((case.n_users, n_items)) < case.owned_share
        owned[np.arange(case.n_users), random.integers(n_items, size=case.n_users)] = True
        owned[0, : case.owned_by_first] = True
        plain = positives_of(owned, case.n_candidates)
        return _in_general(plain, n_items, random) if case.general else plain

    return positives


def _in_general(positives: Positives, n_items: int, random: np.random.Generator) -> Positives:
    """With weights of the positives and of the users, and with a base density."""
    raw = torch.from_numpy(random.random(len(positives.columns)) + 0.1)
    sums = torch.zeros(len(positives), dtype=raw.dtype)
    sums.index_add_(0, positives.row_of_entry, raw)
    return replace(
        positives,
        weights=raw / sums[positives.row_of_entry],
        user_weights=torch.from_numpy(random.exponential(size=len(positives)) + 0.1),
        log_base=torch.from_numpy(random.normal(scale=2, size=n_items)),
    )


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
