from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from densirank.risks import Positives, density


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.sampled_from([0.1, 1.0, 20.0]))
def test_the_multinomial_risk_is_minus_the_log_probability_of_each_positive(
    random_batch: Callable[..., tuple[Tensor, Tensor, NDArray[np.bool_], Positives]],
    seed: int,
    n_outside: int,
    scale: float,
) -> None:
    """Liang et al. 2018, Eq. (2), summed over a user's positives; the partition is that of I_B."""
    users, items, owned, positives = random_batch(seed, n_outside=n_outside, scale=scale)
    scores = (users @ items.T).detach().numpy()
    of_users = [
        -sum(row[item] - logsumexp(row[:8]) for item in np.flatnonzero(mine))
        for row, mine in zip(scores, owned, strict=True)
    ]
    actual = density.multinomial_risk(users, items, positives).item()
    np.testing.assert_allclose(actual, np.mean(of_users), rtol=1e-10)
