from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank import Interactions
from densirank.data.recency import recency_weights
from densirank.errors import InputError


def _rows(lengths: list[int], ordered: bool = True) -> Interactions:
    users = [user for user, n in enumerate(lengths) for _ in range(n)]
    return Interactions.from_pairs(users, [i for n in lengths for i in range(n)], ordered=ordered)


def test_recency_without_an_order_is_refused() -> None:
    with pytest.raises(InputError, match="order of time"):
        recency_weights(_rows([3, 2], ordered=False), 1.0)
    assert (recency_weights(_rows([3, 2], ordered=False), 0.0) == 1).all()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.sampled_from([0.5, 3.0, 1000.0]))
def test_weights_are_one_on_average_and_grow_by_the_same_factor(
    lengths: list[int], recency: float
) -> None:
    data = _rows(lengths)
    weights = recency_weights(data, recency)
    for user, n in enumerate(lengths):
        own = weights[data.indptr[user] : data.indptr[user + 1]]
        np.testing.assert_allclose(own.mean(), 1)
        if n > 1 and recency < 10:  # otherwise the oldest ones weigh nothing at all
            np.testing.assert_allclose(np.diff(np.log(own)), recency / (n - 1))
