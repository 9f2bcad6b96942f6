from __future__ import annotations

import numpy as np
import pytest

from densirank import Interactions
from densirank.data.share import Share
from densirank.world import World


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_disjoint_and_make_up_the_data(size: int) -> None:
    users, items = [3, 1, 2, 3, 4, 1], ["a", "b", "a", "c", "b", "c"]
    data = Interactions.from_pairs(users, items, timestamps=range(6), weights=[1, 2, 3, 4, 5, 6])
    shares = [Share.of(World(rank, size), data) for rank in range(size)]
    pairs = [pair for share in shares for pair in share.own.pairs()]
    assert pairs == list(data.pairs())
    for column in ("timestamps", "weights"):
        parts = np.concatenate([getattr(share.own, column) for share in shares])
        assert np.array_equal(parts, getattr(data, column))
    for share in shares:
        assert share.n_users == data.n_users
        assert share.own.n_items == data.n_items
        first = data.user_ids.ids[share.first_user : share.first_user + share.own.n_users]
        assert np.array_equal(share.own.user_ids.ids, first)
