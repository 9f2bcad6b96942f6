"""Scores are cut into blocks and tiles that keep to their bytes and leave nothing out."""

from __future__ import annotations

import pytest
import torch

from densirank.risks import tiles
from densirank.risks.tiles import Tiling, Workspace

SIZES = [(1, 1), (1, 3_000_000), (7, 40_000), (240, 2000), (5000, 10_000), (5000, 50_000), (9, 0)]


@pytest.mark.parametrize(("n_users", "n_candidates"), SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_block_and_its_tiles_keep_to_their_bytes(
    n_users: int, n_candidates: int, dtype: torch.dtype
) -> None:
    like = torch.empty(0, dtype=dtype)
    rows, columns = Tiling.of(n_users, n_candidates, like, whole_rows=False)
    assert 1 <= rows <= n_users
    assert columns % tiles.WHOLE_LINES == 0
    row_bytes = max(1, n_candidates) * dtype.itemsize
    assert rows == 1 or rows * row_bytes <= tiles.BLOCK_BYTES["cpu"]
    too_wide = rows * tiles.WHOLE_LINES * dtype.itemsize
    assert rows * columns * dtype.itemsize < tiles.TILE_BYTES + too_wide
    assert Tiling.of(n_users, n_candidates, like, whole_rows=True) == (rows, max(1, n_candidates))


def test_more_threads_have_larger_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Tiling.of(5000, 50_000, torch.empty(0), whole_rows=False)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    four = Tiling.of(5000, 50_000, torch.empty(0), whole_rows=False)
    assert four.rows == one.rows
    assert 3 * one.columns < four.columns <= 4 * one.columns + tiles.WHOLE_LINES


@pytest.mark.parametrize("columns", [1, 3, 10, 16])
def test_tiles_cover_every_candidate_once_in_memory_of_their_own(columns: int) -> None:
    cut = Workspace().tiles(4, 10, columns, torch.empty(0))
    covered = [item for tile in cut for item in range(tile.items.start, tile.items.stop)]
    assert covered == list(range(10))
    for number, tile in enumerate(cut):
        tile.scores.fill_(number)
        tile.density.fill_(-1 - number)
    for number, tile in enumerate(cut):
        shape = (4, tile.items.stop - tile.items.start)
        assert torch.equal(tile.scores, torch.full(shape, float(number)))
        assert torch.equal(tile.density, torch.full(shape, -1.0 - number))
