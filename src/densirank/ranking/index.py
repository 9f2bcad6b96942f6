"""What an index is: it finds most of the largest inner products without reading every item."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Protocol, Self

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
