from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from densirank.risks import Positives
from densirank.risks.pointwise import squared_risk

RandomBatch = Callable[..., tuple[Tensor, Tensor, NDArray[np.bool_], Positives]]


@settings(max_examples=30)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 3),
    st.sampled_from([0.01, 0.5, 1.0]),
    st.booleans(),
)
@example(0, 3, 0.5, True)
def test_it_is_the_weighted_squared_error_of_all_pairs_less_a_constant(
    random_batch: RandomBatch, seed: int, n_outside: int, weight: float, saturated: bool
) -> None:
    """Chen et al. 2020: Σ c (y − f)² over what is a candidate or a positive, Σ c y² left out."""
    users, items, owned, positives = random_batch(seed, n_outside=n_outside, saturated=saturated)
    observed = torch.from_numpy(owned)
    confidence = torch.from_numpy(np.where(owned, 1.0, weight))
    confidence[:, 8:][~observed[:, 8:]] = 0  # neither had nor a candidate
    errors = confidence * (observed.double() - users @ items.T).square()
    expected = (errors.sum() - observed.sum()) / len(users)
    actual = squared_risk(users, items, positives, weight)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(
        torch.autograd.grad(actual, (users, items)),
        torch.autograd.grad(expected, (users, items)),
        rtol=1e-9,
        atol=1e-9,
    )
