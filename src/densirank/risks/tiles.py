"""Scores of users × candidates, cut so that memory is bounded and the cache holds what is at hand.

A block is the scores of some users against all candidates, since a density is known when a user's
last score is. What is done to it is done tile by tile, some of the candidates at a time: a CPU then
makes, exponentiates and sums a tile in its cache, and only what a second pass needs goes to memory.
Processes that share the memory's bandwidth keep each other waiting the less.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK_BYTES = {"cpu": 48 << 20, "cuda": 512 << 20}
"""Bytes of one block of scores: enough rows for products at full rate, little beside the rest."""

TILE_BYTES = 2 << 20
"""Bytes of a tile's scores, for every thread: its density as well is near in a CPU's cache."""

TILE_ROWS = 240
"""Users of a block on a CPU, at most: narrow tiles, or powers of two, slow the products down."""

WHOLE_LINES = 16
"""A tile's columns are a multiple of this, so that its rows start where cache lines do."""


class Tiling(NamedTuple):
    """How scores are cut."""

    rows: int  # users of a block
    columns: int  # candidates of a tile

    @classmethod
    def of(cls, n_users: int, n_candidates: int, like: Tensor, whole_rows: bool) -> Tiling:
        """Blocks and tiles that keep to their bytes; with ``whole_rows`` a block is one tile."""
        n_candidates = max(1, n_candidates)
        rows = BLOCK_BYTES[like.device.type] // (n_candidates * like.element_size())
        if like.device.type == "cpu":
            rows = min(rows, TILE_ROWS)
        rows = max(1, min(rows, n_users))
        if whole_rows:
            return cls(rows, n_candidates)
        tile_bytes = torch.get_num_threads() * TILE_BYTES
        n_tiles = -(-rows * n_candidates * like.element_size() // tile_bytes)
        return cls(rows, -(-n_candidates // (n_tiles * WHOLE_LINES)) * WHOLE_LINES)


class Tile(NamedTuple):
    """Memory for a part of a block of scores."""

    items: slice
    scores: Tensor  # (rows, items)
    density: Tensor  # (rows, items)


class Workspace:
    """Memory that one call leaves to the next: new memory costs a fault a page."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def tiles(self, rows: int, n_candidates: int, columns: int, like: Tensor) -> list[Tile]:
        """The tiles of a block of so many rows, of any content."""
        needed = 2 * rows * n_candidates
        if (
            self._memory.numel() < needed
            or self._memory.dtype != like.dtype
            or self._memory.device != like.device
        ):
            self._memory = like.new_empty(needed + needed // 8)  # the next batch may be larger
        tiles = []
        for start in range(0, n_candidates, columns):
            stop = min(start + columns, n_candidates)
            memory = self._memory[2 * rows * start : 2 * rows * stop]
            scores, density = memory.view(2, rows, stop - start)
            tiles.append(Tile(slice(start, stop), scores, density))
        return tiles
