"""The data that an update is measured on: nothing lost, nothing twice, and the newest last."""

from __future__ import annotations

import densirank
from update import LATER_ITEMS, LATER_USERS, split


def test_what_is_there_first_and_what_comes_later_are_everything_in_order() -> None:
    pairs = [(user, (user + 7 * place) % 97) for user in range(40) for place in range(20)]
    data = densirank.Interactions.from_pairs(*zip(*pairs, strict=True), ordered=True)
    first, later = split(data, seed=1)
    assert sorted([*first.pairs(), *later.pairs()]) == sorted(data.pairs())
    assert first.n_users == round((1 - LATER_USERS) * 40)
    for user in first.user_ids.ids.tolist():
        early = [item for u, item in first.pairs() if u == user]
        assert early == [item for u, item in pairs if u == user][: round((1 - LATER_ITEMS) * 20)]
