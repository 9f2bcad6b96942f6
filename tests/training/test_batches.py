from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import densirank
from densirank.data.interactions import Interactions
from densirank.data.share import Share
from densirank.data.synthetic import planted
from densirank.models.mf import MatrixFactorisation
from densirank.risks import Risk, density, tensor_cores
from densirank.risks.weighting import DensitySettings
from densirank.settings import Candidates, TrainingSettings
from densirank.training.batches import Batch, BatchSampler
from densirank.training.step import step
from densirank.world import World


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
        and bool(one.positives.n_candidates == other.positives.n_candidates)
    )


kinds_of_candidates: st.SearchStrategy[Candidates] = st.one_of(
    st.just("batch"), st.just("all"), st.integers(1, 12)
)


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


@given(kinds_of_candidates, st.integers(0, 2**32 - 1))
def test_the_promise_that_all_positives_are_candidates_is_kept(
    candidates: Candidates, seed: int
) -> None:
    positives = _sampler(_data(6, 9, seed), 3, candidates, seed)(0).positives
    all_inside = bool((positives.columns < positives.n_candidates).all())
    assert positives.all_are_candidates == all_inside


@given(
    st.integers(1, 8),
    st.integers(1, 10),
    st.integers(1, 10),
    kinds_of_candidates,
    st.integers(0, 2**32 - 1),
    st.integers(0, 50),
)
def test_a_padded_batch_is_the_same_batch_in_sizes_that_all_draws_share(
    n_users: int,
    n_items: int,
    users_per_batch: int,
    candidates: Candidates,
    seed: int,
    iteration: int,
) -> None:
    sampler = _sampler(_data(n_users, n_items, seed), users_per_batch, candidates, seed)
    exact, padded = sampler(iteration), sampler.arrange_padded(sampler.draw(iteration))

    assert torch.equal(padded.users, exact.users)
    assert torch.equal(padded.positives.indptr, exact.positives.indptr)
    n_entries = len(exact.positives.columns)
    own_items = padded.items[padded.positives.columns[:n_entries]]
    assert torch.equal(own_items, exact.items[exact.positives.columns])

    assert isinstance(padded.positives.n_candidates, torch.Tensor)
    assert padded.positives.n_candidates.dtype == torch.int32
    assert set(padded.candidates.tolist()) == set(exact.candidates.tolist())
    assert len(padded.candidates) == len(exact.candidates)
    items = padded.items.tolist()
    assert len(set(items)) == len(items)
    assert set(items[: len(exact.items)]) == set(exact.items.tolist())  # the unused ones are last

    other = sampler.arrange_padded(sampler.draw(iteration + 1))
    assert other.items.shape == padded.items.shape
    assert other.positives.columns.shape == padded.positives.columns.shape


@pytest.mark.parametrize(
    ("candidates", "capacity"), [("batch", 5 + 9), (20, 5 + 9 + 20), ("all", 100), (95, 100)]
)
def test_a_padded_batch_is_no_larger_than_the_busiest_users_can_make_it(
    candidates: Candidates, capacity: int
) -> None:
    owned = np.zeros((4, 100), dtype=bool)
    for user, n_items in enumerate([1, 2, 5, 9]):
        owned[user, :n_items] = True
    sampler = _sampler(densirank.read(sparse.csr_array(owned)), 2, candidates)
    padded = sampler.arrange_padded(sampler.draw(0))
    assert len(padded.positives.columns) == 5 + 9
    assert len(padded.items) == capacity


@pytest.mark.parametrize("candidates", ["batch", "all", 7])
def test_a_step_with_a_padded_batch_by_kernels_is_the_exact_step(candidates: Candidates) -> None:
    """By plain gradient descent, which leaves a gradient its size."""
    data = _data(9, 12, idle=[3])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sampler = BatchSampler(data, 4, candidates, 0, device)

    def change(risk: Risk, batch: Batch, dtype: torch.dtype) -> torch.Tensor:
        model = MatrixFactorisation(9, 12, 5, torch.Generator().manual_seed(0)).to(device, dtype)
        with torch.no_grad():
            for table in model.parameters():
                table.mul_(20)
        before = torch.cat([*model.parameters()]).detach().clone()
        rule = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = step(model, risk, batch, rule, TrainingSettings(l2=0.3, max_norm=4.0))
        after = torch.cat([*model.parameters()]).detach()
        return torch.cat([(after - before).flatten(), loss.unsqueeze(0)]).double()

    exact = change(density.wd_risk, sampler(0), torch.float64)
    padded_batch = sampler.arrange_padded(sampler.draw(0))
    padded = change(tensor_cores.wd_risk, padded_batch, torch.float32)
    assert float((padded - exact).norm()) < 1e-2 * float(exact.norm())
    assert torch.equal(padded == 0, exact == 0)  # the same vectors have not moved


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


def test_every_iteration_has_a_seed_of_its_own_that_any_sampler_finds_again() -> None:
    data = _data(10, 8)
    one = _sampler(data, 3)
    seeds = [one(iteration).seed for iteration in range(50)]
    assert [_sampler(data, 3)(iteration).seed for iteration in (49, 0, 7)] == [
        seeds[iteration] for iteration in (49, 0, 7)
    ]
    others = [_sampler(data, 3, seed=1)(iteration).seed for iteration in range(50)]
    assert len({seed % 2**32 for seed in seeds + others}) == 100  # all that a generator looks at
    for seed in seeds:
        torch.Generator().manual_seed(seed)  # takes no number that does not fit


def test_risks_and_models_draw_different_numbers_from_the_seed_that_was_drawn() -> None:
    sampler = _sampler(_data(10, 8), 3, candidates=4)
    draw = sampler.draw(5)
    batch = sampler.arrange(draw)
    assert batch.positives.seed == draw.seed
    assert batch.seed == sampler(5).seed
    numbers = [
        torch.rand(20, generator=torch.Generator().manual_seed(seed))
        for seed in (batch.seed, batch.positives.seed, batch.positives.some(1, 3).seed)
    ]
    assert len({tuple(drawn.tolist()) for drawn in numbers}) == 3


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


PLANTED = planted(50, 30, items_per_user=6, test_items_per_user=1, seed=2).train
CPU = torch.device("cpu")


@pytest.mark.parametrize("candidates", ["all", 10])
def test_the_processes_parts_of_a_batch_are_the_batch(candidates: Candidates) -> None:
    """Every user of it comes once, at the owner, with the same positives and candidates."""
    settings = DensitySettings(users_per_batch=20, candidates=candidates, user_exponent=1.0)
    alone = BatchSampler.of(Share.of(World(), PLANTED), settings, 3, CPU)
    found = {}
    for rank in range(4):
        share = Share.of(World(rank, 4), PLANTED)
        part = BatchSampler.of(share, settings, 3, CPU)(5)
        for row, user in enumerate((part.users + share.first_user).tolist()):
            own = part.items[part.positives.take(torch.tensor([row])).columns]
            weights = part.positives.user_weights
            assert weights is not None
            found[user] = (own.tolist(), float(weights[row]))
        assert torch.equal(part.candidates, alone(5).candidates)
    whole = alone(5)
    assert sorted(found) == sorted(whole.users.tolist())
    assert whole.positives.user_weights is not None
    for row, user in enumerate(whole.users.tolist()):
        own = whole.items[whole.positives.take(torch.tensor([row])).columns]
        assert found[user] == (own.tolist(), float(whole.positives.user_weights[row]))
