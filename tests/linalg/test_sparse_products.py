"""Products row block by row block, and what is kept of them, against dense NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from densirank.linalg import sparse as sparse_products
from densirank.linalg.sparse import best_entries, by_row_blocks

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=30)
@given(seeds, st.sampled_from([1, 7, 10**6]))
def test_blocks_of_any_size_make_up_the_whole_product(seed: int, block_products: int) -> None:
    random = np.random.default_rng(seed)
    left = random.random((9, 6)) * (random.random((9, 6)) < 0.4)
    right = random.random((6, 8)) * (random.random((6, 8)) < 0.4)
    weights = random.random(9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_products, "BLOCK_PRODUCTS", block_products)
        product = by_row_blocks(
            sparse.csr_array(left),
            sparse.csr_array(right),
            lambda rows, block: sparse.diags_array(weights[rows]) @ block,
        )
    np.testing.assert_allclose(product.toarray(), weights[:, None] * (left @ right), rtol=1e-12)


@settings(max_examples=30)
@given(seeds, st.integers(1, 9))
def test_a_row_keeps_its_highest_entries_that_are_not_barred(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    there = random.random((5, 8)) < 0.7
    values = np.where(there, random.standard_normal((5, 8)), 0)
    barred = random.random((5, 8)) < 0.3
    kept = best_entries(sparse.csr_array(values), count, sparse.csr_array(barred)).toarray()
    for row, (mine, free) in enumerate(zip(kept, there & ~barred, strict=True)):
        candidates = np.flatnonzero(free)
        best = candidates[np.argsort(-values[row, candidates])][:count]
        expected = np.zeros(8)
        expected[best] = values[row, best]
        np.testing.assert_array_equal(mine, expected)


@settings(max_examples=30)
@given(seeds, st.integers(1, 6))
def test_of_equal_entries_a_row_keeps_no_more_than_it_may(seed: int, count: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (5, 8)).astype(np.float32)
    kept = best_entries(sparse.csr_array(values), count).toarray()
    for mine, row in zip(kept, values, strict=True):
        highest = np.sort(row)[::-1][:count]
        assert np.sort(mine)[::-1][:count].tolist() == highest.tolist()
        assert np.count_nonzero(mine) == np.count_nonzero(highest)
        assert set(mine[mine > 0]) <= set(row)
        assert (mine == row)[mine > 0].all()
