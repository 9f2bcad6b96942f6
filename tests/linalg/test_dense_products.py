"""The GPU's way to the highest entries of a product, beside the CPU's and beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from densirank.linalg import products
from densirank.linalg.csr import SparsePart
from densirank.linalg.products import best_of_product, write_product

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _sparse(shape: tuple[int, int], seed: int) -> sparse.csr_array:
    random = np.random.default_rng(seed)
    dense = random.random(shape) * (random.random(shape) < 0.4)
    return sparse.csr_array(dense.astype(np.float32))


shapes = st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 12))
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=40)
@given(shapes, st.integers(1, 6), st.sampled_from([1, 3, 100]), seeds)
def test_rows_keep_their_highest_entries(
    sizes: tuple[int, int, int], count: int, columns_at_once: int, seed: int
) -> None:
    left, right = _sparse(sizes[:2], seed), _sparse(sizes[1:], seed + 1)
    product = left.toarray().astype(float) @ right.toarray().astype(float)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "COLUMN_BYTES", 4 * sizes[0] * columns_at_once)
        best = best_of_product(left, right, count, DEVICE).toarray()
    for found, row in zip(best, product, strict=True):
        highest = np.sort(row)[::-1][:count]
        np.testing.assert_allclose(np.sort(found)[::-1][:count], highest, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found[found > 0], row[found > 0], rtol=1e-3, atol=1e-5)


@settings(max_examples=40)
@given(shapes, st.sampled_from([1, 5, 1000]), seeds)
def test_a_product_is_written_whole_however_few_terms_are_made_at_once(
    sizes: tuple[int, int, int], terms: int, seed: int
) -> None:
    left, right = _sparse(sizes[:2], seed), _sparse(sizes[1:], seed + 1)
    out = torch.full((sizes[0], sizes[2]), 7.0, device=DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "BLOCK_TERMS", terms)
        write_product(SparsePart.of(left, DEVICE), SparsePart.of(right, DEVICE), out)
    np.testing.assert_allclose(out.cpu().numpy(), (left @ right).toarray(), rtol=1e-5, atol=1e-6)
