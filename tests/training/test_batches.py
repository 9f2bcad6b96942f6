from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import densirank
from densirank.data.interactions import Interactions
from densirank.settings import Candidates
from densirank.training.batches import Batch, BatchSampler


def _data(n_users: int, n_items: int, seed: int = 0, idle: Sequence[int] = ()) -> Interactions:
    """Users with some items each, save for the idle ones, who have none."""
    random = np.random.default_rng(seed)
    owned = random.random((n_users, n_items)) < 0.3
    owned[np.arange(n_users), random.integers(n_items, size=n_users)] = True
    owned[list(idle)] = False
    return densirank.read(sparse.csr_array(owned))


def _sampler(
    data: Interactions, users_per_batch: int, candidates: Candidates = "batch", seed: int = 0
) -> BatchSampler:
    return BatchSampler(data, users_per_batch, candidates, seed, torch.device("cpu"))


def _users(batch: Batch) -> list[int]:
    users: list[int] = batch.users.tolist()
    return users


def _same(one: Batch, other: Batch) -> bool:
    return (
        torch.equal(one.users, other.users)
        and torch.equal(one.items, other.items)
        and torch.equal(one.positives.indptr, other.positives.indptr)
        and torch.equal(one.positives.columns, other.positives.columns)
        and one.positives.n_candidates == other.positives.n_candidates
    )


kinds_of_candidates: st.SearchStrategy[Candidates] = st.one_of(
    st.just("batch"), st.just("all"), st.integers(1, 12)
)


@settings(deadline=None)
@given(
    st.integers(1, 8),
    st.integers(1, 10),
    st.integers(1, 10),
    kinds_of_candidates,
    st.integers(0, 2**32 - 1),
    st.integers(0, 50),
)
def test_a_batch_holds_some_users_once_all_their_positives_and_the_candidates(
    n_users: int,
    n_items: int,
    users_per_batch: int,
    candidates: Candidates,
    seed: int,
    iteration: int,
) -> None:
    data = _data(n_users, n_items, seed)
    batch = _sampler(data, users_per_batch, candidates, seed)(iteration)
    users, items, chosen = _users(batch), batch.items.tolist(), batch.candidates.tolist()

    assert len(set(users)) == len(users) == min(users_per_batch, n_users)
    bounds = batch.positives.indptr.tolist()
    own_items = batch.items[batch.positives.columns]
    assert len(bounds) == len(users) + 1
    for user, start, end in zip(users, bounds, bounds[1:], strict=False):
        assert own_items[start:end].tolist() == data.items_of(user).tolist()

    positives = set(own_items.tolist())
    assert len(set(items)) == len(items)
    if candidates == "batch":
        assert chosen == items == sorted(positives)
    elif candidates == "all":
        assert chosen == items == list(range(n_items))
    else:
        assert len(chosen) == min(candidates, n_items)
        assert set(chosen) <= set(range(n_items))
        assert items[len(chosen) :] == sorted(positives - set(chosen))


@settings(deadline=None)
@given(kinds_of_candidates, st.integers(0, 2**32 - 1))
def test_the_promise_that_all_positives_are_candidates_is_kept(
    candidates: Candidates, seed: int
) -> None:
    positives = _sampler(_data(6, 9, seed), 3, candidates, seed)(0).positives
    all_inside = bool((positives.columns < positives.n_candidates).all())
    assert positives.all_are_candidates == all_inside


def test_an_epoch_visits_every_user_with_positives_once_and_the_others_never() -> None:
    sampler = _sampler(_data(15, 9, idle=[0, 4, 14]), users_per_batch=4)
    active = [user for user in range(15) if user not in (0, 4, 14)]
    epochs = [
        [user for turn in range(3) for user in _users(sampler(3 * epoch + turn))]
        for epoch in range(5)
    ]
    assert [sorted(epoch) for epoch in epochs] == [active] * 5
    assert len({tuple(epoch) for epoch in epochs}) == 5  # each in an order of its own


def test_a_remainder_smaller_than_a_batch_waits_and_is_not_always_the_same() -> None:
    sampler = _sampler(_data(7, 5), users_per_batch=3)
    left_out: list[int] = []
    for epoch in range(40):
        visited = _users(sampler(2 * epoch)) + _users(sampler(2 * epoch + 1))
        assert len(set(visited)) == 6
        left_out += set(range(7)) - set(visited)
    assert set(left_out) == set(range(7))


@pytest.mark.parametrize("candidates", ["batch", "all", 4])
def test_any_iteration_can_be_drawn_first_with_the_same_result(candidates: Candidates) -> None:
    data = _data(10, 8)
    straight = [_sampler(data, 3, candidates)(iteration) for iteration in range(9)]
    one = _sampler(data, 3, candidates)
    for iteration in (7, 0, 8, 3, 3, 1, 6, 2, 5, 4):
        assert _same(one(iteration), straight[iteration])


@pytest.mark.parametrize("candidates", ["batch", 4])
def test_seeds_and_iterations_draw_differently(candidates: Candidates) -> None:
    data = _data(30, 20)
    batches = [_sampler(data, 6, candidates, seed)(turn) for seed in (0, 1, 2) for turn in range(6)]
    for position, batch in enumerate(batches):
        assert not any(_same(batch, other) for other in batches[:position])


def test_sampled_candidates_are_uniform_and_change_with_every_iteration() -> None:
    sampler = _sampler(_data(1, 10), users_per_batch=1, candidates=4)
    drawn = [sampler(iteration).candidates for iteration in range(500)]
    counts = torch.bincount(torch.cat(drawn), minlength=10)
    deviation = np.sqrt(500 * 0.4 * 0.6)
    assert float((counts - 200).abs().max()) < 3.5 * deviation
    assert len({tuple(sample.tolist()) for sample in drawn}) > 400


def test_the_draw_does_not_touch_the_global_randomness() -> None:
    sampler = _sampler(_data(10, 8), 3, candidates=4)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    sampler(0)
    assert torch.equal(torch.get_rng_state(), before)
