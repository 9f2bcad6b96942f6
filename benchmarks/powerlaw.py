"""Synthetic interactions of any size with power laws for users and items, sampled in blocks.

A few users are very active and a few items are very popular, as in real logs. Pairs are unique, and
only one block is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from densirank import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.files import written_atomically

ACTIVITY = 0.4
"""The user of rank r has items in proportion to r^−this."""

POPULARITY = 0.8
"""An item of rank r is drawn in proportion to r^−this."""

PART = 2_000_000
"""Pairs that are drawn at a time."""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """The size of a sample: numbers of users, items and unique pairs."""

    users: int
    items: int
    interactions: int

    def __str__(self) -> str:
        return f"{self.users:,} users × {self.items:,} items, {self.interactions:,} interactions"

    def counts(self) -> Ints:
        """How many items the user of each rank has, the most active one first."""
        weights = np.arange(1, self.users + 1) ** -ACTIVITY
        ends = np.rint(np.cumsum(weights) * (self.interactions / weights.sum())).astype(np.int64)
        counts: Ints = np.diff(ends, prepend=0)
        return counts

    def problem(self) -> str | None:
        """Why nothing can be drawn in this size, if so."""
        most = int(self.counts().max())
        if most <= self.items // 2:
            return None
        return f"the most active user would have {most:,} of {self.items:,} items: take more items"


def parts(size: Size, seed: int = 0) -> Iterator[tuple[Ints, Ints]]:
    """(user, item) of every pair, users from everywhere in each part and its pairs in no order."""
    random = np.random.default_rng(seed)
    counts = random.permutation(size.counts())
    item_at_rank = random.permutation(size.items)
    users = random.permutation(size.users)
    ends = np.cumsum(counts[users])
    cuts = np.searchsorted(ends, np.arange(PART, size.interactions, PART))
    for some in np.split(users, cuts):
        rows, ranks = np.divmod(_distinct(counts[some], size.items, random), size.items)
        yield some[rows], item_at_rank[ranks]


def interactions(size: Size) -> Interactions:
    """All of it at once, items without users included."""
    users, items = (np.concatenate(column) for column in zip(*parts(size), strict=True))
    user_ids, item_ids = (
        Vocabulary.from_sorted(np.arange(count)) for count in (size.users, size.items)
    )
    return Interactions.from_codes(users, items, user_ids, item_ids)


def write(path: Path, size: Size) -> None:
    """All of it as a Parquet file, which is there whole or not at all."""
    schema = pa.schema([("user_id", pa.int64()), ("item_id", pa.int64())])
    with written_atomically(path) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for columns in parts(size):
            writer.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema))


def _distinct(counts: Ints, n_items: int, random: np.random.Generator) -> Ints:
    """Distinct ranks of items for each row, as row × n_items + rank, unordered.

    What was drawn before is drawn again, so that each draw is one from the items that are left.
    """
    pairs = np.empty(0, dtype=np.int64)
    missing = counts
    while missing.any():
        rows = np.repeat(np.arange(len(counts)), missing)
        drawn = rows * n_items + _ranks(len(rows), n_items, random)
        pairs = np.sort(np.concatenate((pairs, drawn)))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        missing = counts - np.bincount(pairs // n_items, minlength=len(counts))
    return random.permutation(pairs)


def _ranks(count: int, n_items: int, random: np.random.Generator) -> Ints:
    """Ranks from 0 up by the inverse of the power law's distribution function."""
    left = 1 - POPULARITY
    places = (1 + random.random(count) * ((n_items + 1) ** left - 1)) ** (1 / left)
    ranks: Ints = np.minimum(places.astype(np.int64), n_items) - 1
    return ranks
