"""Indexes of item vectors that find most of the largest inner products without reading them all.

Both kinds look for near neighbours, by angle or by distance, and inner products are neither. An
added coordinate, √(M² − ‖e_i‖²) with M the longest of the item vectors and 0 beside a user's,
gives all items the same length and leaves every product as it is; among vectors of equal length
the largest product is the nearest vector (Bachrach et al. 2014).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, Self

import torch
from torch import Tensor


class Index(Protocol):
    """Finds, for vectors of users, items whose inner products with them are among the largest."""

    kind: ClassVar[str]
    suffix: ClassVar[str]
    efforts: ClassVar[tuple[int, ...]]
    """What ``effort`` may be set to, in ascending order: more finds more and takes longer."""

    effort: int

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """The index of some item vectors, (items, dim) on a CPU."""
        ...

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """The index of these item vectors as :meth:`save` left it."""
        ...

    def save(self, path: Path) -> None:
        """Write what :meth:`load` reads; never a pickle."""
        ...

    @property
    def n_items(self) -> int: ...

    @property
    def n_bytes(self) -> int:
        """Memory it takes beside the model's own vectors."""
        ...

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """(queries, n) items of large inner products, in no order; -1 where it found no more."""
        ...


def of_equal_length(item_vectors: Tensor) -> Tensor:
    """The vectors with one coordinate more, which gives all of them the length of the longest.

    >>> of_equal_length(torch.tensor([[3.0], [5.0]])).tolist()
    [[3.0, 4.0], [5.0, 0.0]]
    """
    squares = item_vectors.square().sum(dim=1)
    missing = (squares.max() - squares).clamp(min=0).sqrt()
    return torch.column_stack((item_vectors, missing))


def with_zero(queries: Tensor) -> Tensor:
    """Vectors of users with the added coordinate, which leaves their products as they are."""
    return torch.nn.functional.pad(queries, (0, 1))
