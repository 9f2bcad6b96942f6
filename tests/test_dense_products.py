"""The GPU's way to the highest entries of a product, beside the CPU's and beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import densirank
from densirank import dense_products
from densirank.csr import Rows
from densirank.dense_products import best_of_product

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _sparse(shape: tuple[int, int], seed: int) -> sparse.csr_array:
    random = np.random.default_rng(seed)
    dense = random.random(shape) * (random.random(shape) < 0.4)
    return sparse.csr_array(dense.astype(np.float32))


@settings(deadline=None, max_examples=40)
@given(
    st.tuples(st.integers(1, 8), st.integers(1, 8), st.integers(1, 12)),
    st.integers(1, 6),
    st.sampled_from([1, 3, 100]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_rows_keep_their_highest_entries(
    sizes: tuple[int, int, int],
    count: int,
    columns_at_once: int,
    barring: bool,
    standardised: bool,
    seed: int,
) -> None:
    left, right = _sparse(sizes[:2], seed), _sparse(sizes[1:], seed + 1)
    product = left.toarray().astype(float) @ right.toarray().astype(float)
    expected = product.copy()
    barred = None
    if barring:
        out = np.random.default_rng(seed).random(product.shape) < 0.3
        out[0, 0] = True
        expected[out] = 0
        barred = Rows.of(densirank.read(sparse.csr_array(out)), DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dense_products, "BLOCK_BYTES", 4 * sizes[0] * columns_at_once)
        best = best_of_product(
            left, right, count, DEVICE, barred=barred, standardised=standardised
        ).toarray()
    if standardised:
        spread = product.std(axis=1, keepdims=True)
        expected /= np.where(spread > 1e-9, spread, 1e-9)
        best[(spread <= 1e-9)[:, 0]] = expected[(spread <= 1e-9)[:, 0]] = 0  # divided by nothing
    for found, row in zip(best, expected, strict=True):
        highest = np.sort(row)[::-1][:count]
        np.testing.assert_allclose(np.sort(found)[::-1][:count], highest, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found[found > 0], row[found > 0], rtol=1e-3, atol=1e-5)
