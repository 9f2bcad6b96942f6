from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError

ids = st.one_of(
    st.just(st.integers(0, 6)),
    st.just(st.integers(-(2**62), 2**62)),
    st.just(st.text(max_size=2)),
)


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[Any, Any, int, int]]:
    """Rows of (user, item, time, weight)."""
    user, item = draw(ids), draw(ids)
    row = st.tuples(user, item, st.integers(0, 5), st.integers(1, 4))
    return draw(st.lists(row, min_size=1, max_size=40))


@given(tables(), st.booleans(), st.booleans())
def test_pairs_agree_with_a_dictionary(
    table: list[tuple[Any, Any, int, int]], timed: bool, weighted: bool
) -> None:
    users, items, times, weights = (list(column) for column in zip(*table, strict=True))
    data = Interactions.from_pairs(
        users, items, times if timed else None, weights if weighted else None
    )
    oracle: dict[Any, dict[Any, tuple[int, int]]] = {}
    for user, item, time, weight in sorted(table, key=lambda row: row[2]) if timed else table:
        row = oracle.setdefault(user, {})
        _, before = row.pop(item, (0, 0))  # so that a repeated item moves to the end
        row[item] = (time, before + weight)

    assert data.user_ids.ids.tolist() == sorted(set(users))
    assert data.item_ids.ids.tolist() == sorted(set(items))
    assert list(data.pairs()) == [(user, item) for user in sorted(oracle) for item in oracle[user]]
    assert len(data) == sum(map(len, oracle.values()))
    assert data.ordered == timed
    expected = [values for user in sorted(oracle) for values in oracle[user].values()]
    if timed:
        assert data.timestamps is not None
        assert data.timestamps.tolist() == [time for time, _ in expected]
    if weighted:
        assert data.weights is not None
        assert data.weights.tolist() == [weight for _, weight in expected]


@given(tables(), st.randoms(use_true_random=False))
def test_fingerprint_does_not_depend_on_the_order_of_rows(
    table: list[tuple[Any, Any, int, int]], random: Any
) -> None:
    def fingerprint(rows: list[tuple[Any, Any, int, int]]) -> str:
        return Interactions.from_pairs([r[0] for r in rows], [r[1] for r in rows]).fingerprint

    shuffled = random.sample(table, len(table))
    assert fingerprint(table) == fingerprint(shuffled)


def test_the_fingerprint_covers_order_and_weights_and_the_one_of_pairs_does_not() -> None:
    users, items = [1, 1, 2], [5, 6, 5]
    plain = Interactions.from_pairs(users, items)
    assert plain.fingerprint == plain.pairs_fingerprint
    others = [
        Interactions.from_pairs(users, items, ordered=True),
        Interactions.from_pairs(users, [6, 5, 5], ordered=True),
        Interactions.from_pairs(users, items, weights=[1, 1, 2]),
        Interactions.from_pairs(users, items, weights=[1, 2, 1]),
        Interactions.from_pairs(users, items, weights=[1, 2, 1], ordered=True),
    ]
    assert {data.pairs_fingerprint for data in others} == {plain.pairs_fingerprint}
    assert len({data.fingerprint for data in (plain, *others)}) == 6
    timed = Interactions.from_pairs([2, 1, 1], [5, 6, 5], timestamps=[9, 8, 7])
    assert timed.fingerprint == others[0].fingerprint  # times count through the order they give
    more = Interactions.from_pairs([*users, 3], [*items, 4], ordered=True)  # ids without pairs
    assert more.select(more.users < 2).fingerprint == others[0].fingerprint


def test_fingerprint_tells_other_pairs_apart() -> None:
    first = Interactions.from_pairs([1, 1, 2], [1, 2, 1])
    second = Interactions.from_pairs([1, 2, 2], [1, 2, 1])
    assert first.fingerprint != second.fingerprint
    assert first.fingerprint == Interactions.from_pairs([1, 2, 1], [2, 1, 1]).fingerprint


@pytest.fixture
def random_data() -> Interactions:
    random = np.random.default_rng(3)
    return Interactions.from_pairs(random.integers(0, 30, 400), random.integers(0, 25, 400))


def test_by_item_is_the_transposed_matrix(random_data: Interactions) -> None:
    indptr, users = random_data.by_item()
    transposed = random_data.matrix().T.tocsr()
    assert indptr.tolist() == transposed.indptr.tolist()
    assert users.tolist() == transposed.indices.tolist()


def test_counts_users_and_positions(random_data: Interactions) -> None:
    dense = random_data.matrix().toarray()
    assert random_data.user_counts.tolist() == dense.sum(axis=1).tolist()
    assert random_data.item_counts.tolist() == dense.sum(axis=0).tolist()
    for user, item, position in zip(
        random_data.users, random_data.items, random_data.positions, strict=True
    ):
        assert random_data.items_of(user)[position] == item


def test_the_matrix_may_be_sorted_in_place_and_leaves_the_data_alone() -> None:
    data = Interactions.from_pairs([0, 0, 1], [2, 1, 3], ordered=True)
    matrix = data.matrix()
    matrix.sort_indices()
    assert matrix.indices.tolist() == [0, 1, 2]
    assert data.items_of(0).tolist() == [1, 0]


def test_select_keeps_vocabularies_and_compact_drops_what_is_unused() -> None:
    data = Interactions.from_pairs(
        ["a", "a", "b", "c"], ["x", "y", "y", "z"], timestamps=[1, 2, 3, 4], weights=[1, 2, 3, 4]
    )
    part = data.select(np.array([False, True, False, True]))
    assert (part.n_users, part.n_items) == (3, 3)
    assert list(part.pairs()) == [("a", "y"), ("c", "z")]
    small = part.compact()
    assert (small.n_users, small.n_items) == (2, 2)
    assert list(small.pairs()) == [("a", "y"), ("c", "z")]
    assert small.timestamps is not None
    assert small.weights is not None
    assert (small.timestamps.tolist(), small.weights.tolist()) == ([2, 4], [2, 4])
    assert len(data.select(np.zeros(4, dtype=bool))) == 0


def test_arrays_cannot_be_written() -> None:
    data = Interactions.from_pairs([0], [0])
    with pytest.raises(ValueError, match="read-only"):
        data.items[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        data.user_ids.ids[0] = 1


def test_zero_weights_are_no_interactions_but_their_ids_stay_known() -> None:
    data = Interactions.from_pairs(
        [1, 1, 2, 1], [5, 6, 5, 5], timestamps=[1, 2, 3, 9], weights=[2, 1, 0, 0]
    )
    assert list(data.pairs()) == [(1, 5), (1, 6)]
    assert data.n_users == 2
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1, 2]


def test_datetimes_become_microseconds() -> None:
    times = np.array(["1970-01-01T00:00:02", "1970-01-01T00:00:01"], dtype="datetime64[s]")
    data = Interactions.from_pairs([1, 1], [1, 2], times)
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1_000_000, 2_000_000]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([], []), "no interactions"),
        (([1, 2], [1]), "2 users but 1 items"),
        (([1.0], [1]), "integers or strings, not float64"),
        ((["a", 1], [1, 2]), "all integers or all strings"),
        (([1, "a"], [1, 2]), "all integers or all strings"),
        (([None, "a"], [1, 2]), "an id is missing"),
        (([[1, 2]], [1]), "flat list"),
        (([2**63], [1]), "9223372036854775808 exceeds 64-bit"),
        (([1, 1], [1, 2], [1]), "2 pairs but 1 timestamps"),
        (([1, 1], [1, 2], [1, np.nan]), "timestamps must be finite; row 2"),
        (([1, 1], [1, 2], ["x", "y"]), "timestamps must be numbers"),
        (([1, 1], [1, 2], np.array([0, "NaT"], "datetime64[s]")), "row 2"),
        (([1, 1], [1, 2], None, [1, np.inf]), "weights must be finite; row 2"),
        (([1, 1], [1, 2], None, [1, -1]), "weights must not be negative; row 2"),
        (([1, 1], [1, 2], None, [0, 0]), "every weight is zero"),
        (([1, 1], [1, 2], None, [1, 1e300]), "weights are too large"),
    ],
)
def test_what_is_no_interaction_is_refused(columns: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Interactions.from_pairs(*columns)


def test_codes_may_be_of_any_integer_type() -> None:
    codes = np.arange(128, dtype=np.int8)
    ids = Vocabulary(np.arange(128))
    assert list(Interactions.from_codes(codes, codes, ids, ids).pairs()) == [
        (number, number) for number in range(128)
    ]


@pytest.mark.parametrize(("timed", "most"), [(False, 36), (True, 56)])
def test_a_pair_costs_few_bytes_on_the_way_in(timed: bool, most: int) -> None:
    """A hundred million of them must leave room for the vectors: each copy counts."""
    n_pairs = 100_000
    random = np.random.default_rng(0)
    users, items, times = random.integers(0, 1000, (3, n_pairs))
    tracemalloc.start()
    try:
        data = Interactions.from_pairs(users, items, times if timed else None)
        _, way_in = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        held, _ = tracemalloc.get_traced_memory()
        data.by_item()
        _, by_item = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert way_in < most * n_pairs
    assert by_item - held < 8 * n_pairs
