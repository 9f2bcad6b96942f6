from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from densirank.risks import Positives

N_CANDIDATES = 6


@pytest.fixture
def owned() -> NDArray[np.bool_]:
    """(users, items); the items from N_CANDIDATES on are no candidates."""
    owned = np.random.default_rng(0).random((5, 9)) < 0.4
    owned[:, 7] = True
    owned[2, :N_CANDIDATES] = False  # one whose positives are all outside
    return owned


@pytest.fixture
def positives(
    owned: NDArray[np.bool_], positives_of: Callable[[NDArray[np.bool_], int], Positives]
) -> Positives:
    return positives_of(owned, N_CANDIDATES)


def test_among_candidates_are_the_positives_that_are_candidates_in_order_of_rows(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    rows, columns = np.nonzero(owned[:, :N_CANDIDATES])
    actual_rows, actual_columns = positives.among_candidates()
    assert actual_rows.tolist() == rows.tolist()
    assert actual_columns.tolist() == columns.tolist()


def test_promise_that_all_are_candidates_changes_nothing_where_it_holds(
    positives: Positives,
) -> None:
    asked = Positives(positives.indptr, positives.columns, 9)
    promised = Positives(positives.indptr, positives.columns, 9, all_are_candidates=True)
    for one, other in zip(asked.among_candidates(), promised.among_candidates(), strict=True):
        assert torch.equal(one, other)


def test_averaging_takes_the_mean_over_each_users_positives(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    values = np.random.default_rng(1).standard_normal((9, 4))
    expected = np.array([values[mine].mean(axis=0) for mine in owned])
    averaging = positives.averaging(9, torch.float64)
    np.testing.assert_allclose((averaging @ torch.from_numpy(values)).numpy(), expected)


def test_scores_are_those_of_each_positive_in_order(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    random = np.random.default_rng(2)
    users, items = random.standard_normal((5, 3)), random.standard_normal((9, 3))
    actual = positives.scores(torch.from_numpy(users), torch.from_numpy(items))
    np.testing.assert_allclose(actual.numpy(), (users @ items.T)[owned])


@pytest.mark.parametrize("weighted", [False, True])
def test_mean_is_that_of_each_user_with_weights_that_sum_to_one(
    owned: NDArray[np.bool_], positives: Positives, weighted: bool
) -> None:
    random = np.random.default_rng(3)
    values, weights = random.standard_normal((5, 9)), random.random((5, 9))
    chosen = weights if weighted else np.ones((5, 9))
    expected = [
        np.average(of_user[mine], weights=by[mine])
        for of_user, mine, by in zip(values, owned, chosen, strict=True)
    ]
    given = torch.from_numpy(weights[owned]) if weighted else None
    actual = positives.mean(torch.from_numpy(values[owned]), given)
    np.testing.assert_allclose(actual.numpy(), expected)


def test_own_items_are_told_from_those_of_others(
    owned: NDArray[np.bool_], positives: Positives
) -> None:
    every_item = torch.arange(9).expand(5, 9)
    assert positives.are_own(every_item).numpy().tolist() == owned.tolist()
    backwards = torch.arange(8, -1, -1).expand(5, 9)
    assert positives.are_own(backwards).numpy().tolist() == owned[:, ::-1].tolist()


def test_items_in_front_of_and_behind_all_positives_are_nobodys_own() -> None:
    positives = Positives(torch.tensor([0, 2, 3]), torch.tensor([5, 3, 4]), 20)  # in any order
    asked = torch.tensor([[0, 3, 4, 5, 19], [0, 3, 4, 5, 19]])
    assert positives.are_own(asked).tolist() == [
        [False, True, False, True, False],
        [False, False, True, False, False],
    ]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (0, 2), (1, 4), (4, 5)])
def test_a_part_has_the_positives_of_its_users_and_knows_those_of_all(
    owned: NDArray[np.bool_], positives: Positives, start: int, stop: int
) -> None:
    part = positives.some(start, stop)
    rows, columns = np.nonzero(owned[start:stop])
    assert part.row_of_entry.tolist() == rows.tolist()
    assert part.columns.tolist() == columns.tolist()
    assert part.n_candidates == N_CANDIDATES
    assert torch.equal(part.everybodys, positives.columns)
    assert torch.equal(positives.everybodys, positives.columns)


def test_a_part_of_a_part_is_a_part_of_the_batch(positives: Positives) -> None:
    nested, direct = positives.some(1, 5).some(1, 3), positives.some(2, 4)
    assert torch.equal(nested.indptr, direct.indptr)
    assert torch.equal(nested.columns, direct.columns)
    assert torch.equal(nested.everybodys, direct.everybodys)
    assert nested.seed == direct.seed


def test_parts_draw_from_seeds_of_their_own(positives: Positives) -> None:
    seeds = [positives.some(start, start + 1).seed for start in range(5)]
    assert len(set(seeds)) == 5
