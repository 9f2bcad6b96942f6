from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.data.interactions import Interactions
from densirank.data.splitting import (
    k_core,
    split_at_time,
    split_last_fraction,
    split_last_n,
    split_random_fraction,
    validation_split,
)
from densirank.errors import InputError

Pair = tuple[int, int]
fractions = st.floats(0.01, 0.99)


@st.composite
def interactions(draw: st.DrawFn) -> Interactions:
    """Ordered pairs in which at least one user has two items."""
    pair = st.tuples(st.integers(0, 5), st.integers(0, 12))
    pairs = draw(st.lists(pair, max_size=50))
    users, items = zip((9, 20), (9, 21), *pairs, strict=True)
    return Interactions.from_pairs(users, items, ordered=True)


def rows(data: Interactions) -> list[list[int]]:
    return [data.items_of(user).tolist() for user in range(data.n_users)]


def assert_partition(data: Interactions, train: Interactions, held_out: Interactions) -> None:
    assert train.user_ids is held_out.user_ids is data.user_ids
    assert train.item_ids is held_out.item_ids is data.item_ids
    assert sorted([*train.pairs(), *held_out.pairs()], key=str) == sorted(data.pairs(), key=str)
    assert set(train.pairs()).isdisjoint(held_out.pairs())


def rounded_share(count: int, fraction: float) -> int:
    return 0 if count < 2 else min(max(math.floor(count * fraction + 0.5), 1), count - 1)


@given(interactions(), fractions)
def test_last_fraction_holds_out_the_end_of_every_row(data: Interactions, fraction: float) -> None:
    train, held_out = split_last_fraction(data, fraction)
    assert_partition(data, train, held_out)
    for whole, kept, held in zip(rows(data), rows(train), rows(held_out), strict=True):
        assert kept + held == whole
        assert len(held) == rounded_share(len(whole), fraction)


@given(interactions(), st.integers(1, 6))
def test_last_n_leaves_everybody_one(data: Interactions, n: int) -> None:
    train, held_out = split_last_n(data, n)
    assert_partition(data, train, held_out)
    for whole, kept, held in zip(rows(data), rows(train), rows(held_out), strict=True):
        assert kept + held == whole
        assert len(held) == min(n, len(whole) - 1)


@given(interactions(), fractions, st.integers(0, 2**32))
def test_random_fraction_has_the_same_counts(
    data: Interactions, fraction: float, seed: int
) -> None:
    train, held_out = split_random_fraction(data, fraction, seed)
    assert_partition(data, train, held_out)
    expected = [rounded_share(count, fraction) for count in data.user_counts]
    assert held_out.user_counts.tolist() == expected
    again = split_random_fraction(data, fraction, seed)[1]
    assert again.items.tolist() == held_out.items.tolist()
    for whole, kept in zip(rows(data), rows(train), strict=True):
        assert kept == [item for item in whole if item in set(kept)]  # the order is kept


def test_random_fraction_is_even_and_changes_with_the_seed() -> None:
    data = Interactions.from_pairs([0] * 10, range(10))
    drawn = [split_random_fraction(data, 0.3, seed)[1].items for seed in range(2000)]
    frequency = np.bincount(np.concatenate(drawn)) / 2000
    assert np.abs(frequency - 0.3).max() < 0.05  # about five standard errors


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 50)), min_size=2), st.integers(0, 50))
def test_time_split(visits: list[Pair], moment: int) -> None:
    users, times = zip(*visits, strict=True)
    data = Interactions.from_pairs(users, range(len(visits)), timestamps=times)
    if not min(times) < moment <= max(times):
        with pytest.raises(InputError, match="no split at time"):
            split_at_time(data, moment)
        return
    train, held_out = split_at_time(data, moment)
    assert_partition(data, train, held_out)
    assert train.timestamps is not None
    assert held_out.timestamps is not None
    assert train.timestamps.max() < moment <= held_out.timestamps.min()


def core_by_force(pairs: set[Pair], k: int) -> set[Pair]:
    """Take away one offender at a time, until there is none."""
    for side in (0, 1):
        for pair in pairs:
            if sum(other[side] == pair[side] for other in pairs) < k:
                return core_by_force({p for p in pairs if p[side] != pair[side]}, k)
    return pairs


@given(
    st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=35),
    st.integers(1, 4),
)
def test_k_core_is_the_largest(pairs: set[Pair], k: int) -> None:
    data = Interactions.from_pairs(*zip(*pairs, strict=True))
    expected = core_by_force(pairs, k)
    if not expected:
        with pytest.raises(InputError, match="core is empty"):
            k_core(data, k)
        return
    core = k_core(data, k)
    assert set(core.pairs()) == expected
    assert core.user_counts.min() >= k
    assert core.item_counts.min() >= k


def test_validation_is_last_where_order_is_known() -> None:
    ordered = Interactions.from_pairs([0] * 10, range(10), ordered=True)
    assert validation_split(ordered, 0.2)[1].items.tolist() == [8, 9]
    unordered = Interactions.from_pairs([0] * 10, range(10))
    cases: list[tuple[Interactions, Literal["random"] | None]] = [
        (unordered, None),
        (ordered, "random"),
    ]
    for data, how in cases:
        drawn = {tuple(validation_split(data, 0.2, how, seed)[1].items) for seed in range(5)}
        assert len(drawn) > 1


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (lambda data: validation_split(data, 0.2, "last"), "order is not known"),
        (lambda data: split_last_fraction(data, 0.2), "order is not known"),
        (lambda data: split_last_n(data, 1), "order is not known"),
        (lambda data: split_last_n(data, 0), "n must be a whole number of at least 1"),
        (lambda data: split_random_fraction(data, 1.0, 0), "between 0 and 1"),
        (lambda data: split_random_fraction(data, 0.0, 0), "between 0 and 1"),
        (lambda data: split_at_time(data, 3), "needs timestamps"),
        (lambda data: validation_split(data, 0.2, cast(Any, "first")), "'last' or 'random', not"),
    ],
)
def test_what_cannot_be_split_is_said(
    split: Callable[[Interactions], object], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        split(Interactions.from_pairs([0, 0, 1], [1, 2, 3]))


def test_single_items_cannot_be_held_out() -> None:
    data = Interactions.from_pairs([0, 1], [5, 5], ordered=True)
    with pytest.raises(InputError, match="no user has more than one"):
        split_last_fraction(data, 0.5)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 1, 2),
        datetime(2026, 1, 2, 1, tzinfo=timezone(timedelta(hours=1))),
        date(2026, 1, 2),
        "2026-01-02",
        "2026-01-02T00:00:00Z",
        np.datetime64("2026-01-02"),
        pd.Timestamp("2026-01-02"),
        1767312000000000,
    ],
)
def test_a_date_splits_what_was_read_from_dates(moment: Any) -> None:
    days = np.array(["2026-01-01", "2026-01-02", "2026-01-03"], "datetime64[D]")
    data = Interactions.from_pairs([0, 0, 1], [5, 6, 5], timestamps=days)
    assert [len(part) for part in split_at_time(data, moment)] == [1, 2]


@pytest.mark.parametrize("moment", [None, True, "20", "soon", float("nan"), pd.NaT, [20], object()])
def test_what_is_no_time_gets_a_sentence(moment: Any) -> None:
    data = Interactions.from_pairs([0, 0, 1], [5, 6, 5], timestamps=[10, 20, 30])
    with pytest.raises(InputError, match="the time of a split must be a number, a date or"):
        split_at_time(data, moment)
    with pytest.raises(InputError, match=r"2026-01-01 \(1767225600000000 microseconds since 1970"):
        split_at_time(data, "2026-01-01")


@pytest.mark.parametrize("value", [1.5, True, "1", None])
def test_counts_and_shares_of_another_kind_get_a_sentence(value: Any) -> None:
    data = Interactions.from_pairs([0, 0, 1], [5, 6, 5], ordered=True)
    for split in (split_last_n, k_core, lambda d, v: split_random_fraction(d, 0.5, v)):
        with pytest.raises(InputError, match="must be a whole number of at least"):
            split(data, value)
    with pytest.raises(InputError, match="held out must be between 0 and 1"):
        split_last_fraction(data, value)
