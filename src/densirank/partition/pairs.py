"""The pairs of consecutive users in CSR form, without the ids: what a part's file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import StorageError


@dataclass(frozen=True)
class Pairs:
    """The arrays of :class:`Interactions`; ``indptr`` speaks of these users alone."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    timestamps: NDArray[Any] | None = None
    weights: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def of(cls, data: Interactions) -> Pairs:
        """Those of some interactions."""
        return cls(data.indptr, data.items, data.timestamps, data.weights)

    @classmethod
    def none(cls, users: int, kind: np.dtype[Any]) -> Pairs:
        """No pairs of so many users, of a log with rows of this kind."""
        roles = kind.names or ()
        return cls(
            np.zeros(users + 1, dtype=np.int64),
            np.empty(0, dtype=np.int32),
            np.empty(0, dtype=kind["timestamp"]) if "timestamp" in roles else None,
            np.empty(0, dtype=np.float32) if "weight" in roles else None,
        )

    @classmethod
    def joined(cls, runs: Sequence[Pairs]) -> Pairs:
        """The users of all runs (at least one), one run after another."""
        counts = np.concatenate([np.diff(run.indptr) for run in runs])
        timestamps = [run.timestamps for run in runs if run.timestamps is not None]
        weights = [run.weights for run in runs if run.weights is not None]
        return cls(
            np.concatenate(([0], np.cumsum(counts))),
            np.concatenate([run.items for run in runs]),
            np.concatenate(timestamps) if timestamps else None,
            np.concatenate(weights) if weights else None,
        )

    def of_users(self, first: int, end: int) -> Pairs:
        """Those of the users from ``first`` up to ``end``."""
        if (first, end) == (0, self.n_users):
            return self
        low, high = self.indptr[[first, end]].tolist()
        return Pairs(
            self.indptr[first : end + 1] - low,
            self.items[low:high].copy(),
            None if self.timestamps is None else self.timestamps[low:high].copy(),
            None if self.weights is None else self.weights[low:high].copy(),
        )

    def among(self, first: int, users: int) -> Pairs:
        """The same pairs among so many users, of whom these begin at ``first``."""
        after = users - first - self.n_users
        indptr = np.pad(self.indptr, (first, after), constant_values=(0, len(self)))
        return Pairs(indptr, self.items, self.timestamps, self.weights)

    def save(self, path: Path) -> None:
        """Write what :meth:`load` reads."""
        from safetensors.numpy import save_file

        save_file({name: array for name, array in vars(self).items() if array is not None}, path)

    @classmethod
    def load(cls, path: Path) -> Pairs:
        """The pairs that were saved to a file."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return cls(**load_file(path))
        except (SafetensorError, TypeError) as error:
            raise StorageError(f"{path} does not hold a part of a partition ({error})") from error
