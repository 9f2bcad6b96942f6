"""Rows of a log, set down on disk by user until they can be looked at some users at a time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.partition.pairs import Pairs

Ints = NDArray[np.int64]


def even_cuts(counts: Ints, n: int) -> Ints:
    """Where to cut users so that n runs of them have about as many rows each; (n + 1,).

    >>> even_cuts(np.array([1, 1, 4, 1, 1]), 2).tolist()
    [0, 2, 5]
    """
    before = np.concatenate(([0], np.cumsum(counts)))
    wanted = before[-1] * np.arange(n + 1) // n
    cuts = np.searchsorted(before, wanted)
    below = np.maximum(cuts - 1, 0)
    nearest: Ints = np.where(wanted - before[below] <= before[cuts] - wanted, below, cuts)
    return nearest


@dataclass(frozen=True)
class Buckets:
    """Files of rows in the order they came, one for each run of users between two ``cuts``."""

    folder: Path
    cuts: Ints  # (buckets + 1,) ascending

    def add(self, rows: NDArray[Any]) -> None:
        """Deal rows out to the buckets of their users."""
        bucket = np.searchsorted(self.cuts, rows["user"], side="right") - 1
        order = np.argsort(bucket.astype(np.min_scalar_type(len(self.cuts))), kind="stable")
        rows = rows[order]
        ends = np.searchsorted(bucket[order], np.arange(len(self.cuts)))
        for number, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                with self._path(number).open("ab") as file:
                    rows[start:end].tofile(file)

    def take(self, first: int, end: int, kind: np.dtype[Any], n_items: int) -> Pairs:
        """The unique pairs of the users from ``first`` up to ``end``, both of them cuts.

        The rows, of this ``kind``, go with it: disk is given back as parts are written.
        """
        low, high = np.searchsorted(self.cuts, (first, end)).tolist()
        runs = [self._take(number, kind, n_items) for number in range(low, high)]
        return Pairs.joined(runs) if runs else Pairs.none(0, kind)

    def _take(self, number: int, kind: np.dtype[Any], n_items: int) -> Pairs:
        first, end = self.cuts[number : number + 2].tolist()
        path = self._path(number)
        if not path.exists():
            return Pairs.none(end - first, kind)
        rows = np.fromfile(path, dtype=kind)
        path.unlink()
        column = {name: rows[name] for name in kind.names or ()}
        weights = column.get("weight")
        if weights is not None and not weights.any():
            return Pairs.none(end - first, kind)
        return Pairs.of(
            Interactions.from_codes(
                column["user"] - np.int32(first),
                column["item"],
                _numbered(end - first),
                _numbered(n_items),
                column.get("timestamp"),
                weights,
            )
        )

    def _path(self, number: int) -> Path:
        return self.folder / str(number)


def _numbered(count: int) -> Vocabulary:
    """Ids that are the indices themselves, where only indices matter."""
    return Vocabulary.from_sorted(np.arange(count))
