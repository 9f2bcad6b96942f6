"""Densities against SciPy's softmax and entropy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats

from densirank.linalg.csr import Rows
from densirank.ranking.blocks import COPIES
from densirank.ranking.density import density_blocks
from densirank.scores import VectorScorer

USERS, ITEMS = 7, 9


@pytest.fixture
def scorer() -> VectorScorer:
    random = torch.Generator().manual_seed(1)
    return VectorScorer(
        3 * torch.randn(USERS, 4, generator=random), torch.randn(ITEMS, 4, generator=random)
    )


@pytest.mark.parametrize("rows_a_block", [1, 3, 7])
def test_a_density_is_renormalised_over_what_is_left_whatever_the_budget(
    scorer: VectorScorer, rows_a_block: int
) -> None:
    seen = Rows(torch.arange(USERS + 1) * 2, (torch.arange(2 * USERS) * 5) % ITEMS)
    allowed, excluded = [0, 2, 3, 4, 5, 8], [4]
    blocks = list(
        density_blocks(
            scorer,
            torch.arange(USERS),
            seen=seen,
            allowed=torch.tensor(allowed),
            excluded=torch.tensor(excluded),
            budget_bytes=rows_a_block * COPIES * 4 * ITEMS,
        )
    )
    assert len(blocks) == -(-USERS // rows_a_block)
    log_p = np.concatenate([block.log_probabilities.numpy() for block in blocks])
    scores = scorer.scores(torch.arange(USERS)).double().numpy()
    for user in range(USERS):
        own = seen.columns[2 * user : 2 * user + 2].tolist()
        left = sorted(set(allowed) - set(excluded) - set(own))
        expected = np.full(ITEMS, -np.inf)
        expected[left] = special.log_softmax(scores[user, left])
        np.testing.assert_allclose(log_p[user], expected, rtol=1e-5, atol=1e-5)
        entropy = stats.entropy(np.exp(expected))
        block, row = blocks[user // rows_a_block], user % rows_a_block
        assert float(block.entropy[row]) == pytest.approx(entropy, abs=1e-5)
        assert float(block.effective_items[row]) == pytest.approx(np.exp(entropy), rel=1e-5)


def test_equally_likely_items_are_all_effective() -> None:
    flat = VectorScorer(torch.zeros(1, 2), torch.ones(1000, 2))
    (block,) = density_blocks(flat, torch.tensor([0]), excluded=torch.arange(300))
    assert float(block.effective_items) == pytest.approx(700, rel=1e-5)


def test_a_user_to_whom_nothing_is_left_has_no_density_and_no_nan(scorer: VectorScorer) -> None:
    seen = Rows(torch.tensor([0, ITEMS, *[ITEMS] * (USERS - 1)]), torch.arange(ITEMS))
    (block,) = density_blocks(scorer, torch.tensor([0, 1]), seen=seen)
    assert torch.isneginf(block.log_probabilities[0]).all()
    assert (float(block.entropy[0]), float(block.effective_items[0])) == (0, 0)
    assert float(block.log_probabilities[1].exp().sum()) == pytest.approx(1, rel=1e-5)
