"""The reliability table against draws whose density is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special

from densirank.evaluation.held_out import Draws
from densirank.evaluation.reliability import Reliability, reliability
from densirank.linalg.csr import Rows
from densirank.scores import VectorScorer

USERS, ITEMS = 80, 300


def rows(counts: list[int], columns: list[int]) -> Rows:
    return Rows(torch.tensor([0, *np.cumsum(counts)]), torch.tensor(columns))


@pytest.fixture(scope="module")
def logits() -> torch.Tensor:
    return 3 * torch.randn(USERS, ITEMS, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def draws(logits: torch.Tensor) -> Draws:
    """Held-out items drawn from the softmax of the logits, without item 0, which all have had."""
    random = np.random.default_rng(1)
    p = logits.double().numpy()
    p[:, 0] = -np.inf
    counts = random.integers(1, 60, USERS)
    drawn = [
        random.choice(ITEMS, n, p=row)
        for n, row in zip(counts, special.softmax(p, axis=1), strict=True)
    ]
    return Draws(
        torch.arange(USERS),
        rows(counts.tolist(), np.concatenate(drawn).tolist()),
        rows([1] * USERS, [0] * USERS),
    )


def measured(logits: torch.Tensor, draws: Draws, bins: int = 10) -> Reliability:
    return reliability(VectorScorer(logits, torch.eye(ITEMS)), draws, bins)


def test_a_bin_holds_what_a_dense_count_finds_in_it(logits: torch.Tensor, draws: Draws) -> None:
    found = measured(logits, draws)
    scores = logits.double().numpy()
    scores[:, 0] = -np.inf
    p = special.softmax(scores, axis=1)
    n = draws.items.counts.numpy()[:, None]
    hits = np.zeros((USERS, ITEMS))
    np.add.at(hits, (draws.items.row_of_entry.numpy(), draws.items.columns.numpy()), 1)
    for low, high, *counts in zip(
        found.low, found.high, found.chances, found.expected, found.observed, strict=True
    ):
        inside = (p >= low) & (p < high)
        dense = [(inside * n).sum(), (inside * n * p).sum(), (inside * hits).sum()]
        np.testing.assert_allclose(counts, dense, rtol=1e-5)


def test_bins_are_in_order_share_the_mass_and_lose_no_draw(
    logits: torch.Tensor, draws: Draws
) -> None:
    found = measured(logits, draws)
    n = len(draws.items.columns)
    assert found.observed.sum() == n
    assert found.expected.sum() == pytest.approx(n, rel=1e-5)
    assert found.chances.sum() == n * (ITEMS - 1)
    assert (found.low[1:] >= found.high[:-1]).all()
    assert len(found.low) == 10
    assert (found.expected > 0.02 * n).all()
    assert (found.expected < 0.25 * n).all()


def test_the_true_density_is_reliable_and_a_sharpened_one_is_not(
    logits: torch.Tensor, draws: Draws
) -> None:
    true = measured(logits, draws)
    assert (np.abs(true.frequency - true.predicted) < 4 * true.standard_error).all()
    sharpened = measured(2 * logits, draws)
    assert sharpened.frequency[-1] < sharpened.predicted[-1] - 5 * sharpened.standard_error[-1]
    assert sharpened.frequency[0] > 2 * sharpened.predicted[0]


def test_improbable_items_that_come_are_counted(draws: Draws) -> None:
    certain = torch.zeros(USERS, ITEMS)
    certain[:, 1] = 90.0  # leaves the others 10^-39 each
    found = measured(certain, draws)
    assert found.observed.sum() == len(draws.items.columns)
    assert found.chances.sum() == len(draws.items.columns) * (ITEMS - 1)
