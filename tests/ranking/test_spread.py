from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import entropy

from densirank.ranking.topk import spread

LOGITS = st.floats(-300, 300, width=32) | st.just(-np.inf)


@given(st.lists(LOGITS, min_size=1, max_size=30))
def test_normaliser_and_entropy_are_scipys(logits: list[float]) -> None:
    normaliser, open_to = spread(torch.tensor([logits]))
    if np.isneginf(logits).all():
        assert normaliser.item() == -np.inf
        assert open_to.item() == 0
        return
    expected = logsumexp(np.array(logits))
    np.testing.assert_allclose(normaliser.item(), expected, rtol=1e-5, atol=1e-5)
    probabilities = np.exp(np.array(logits) - expected)
    np.testing.assert_allclose(open_to.item(), entropy(probabilities), atol=2e-4)


def test_the_logits_stay_as_they_are() -> None:
    logits = torch.tensor([[1.0, -torch.inf, -500.0]])
    before = logits.clone()
    spread(logits)
    assert torch.equal(logits, before)
