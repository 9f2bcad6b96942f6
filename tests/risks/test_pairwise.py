from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from densirank.risks import Positives, density
from densirank.risks.pairwise import DYNAMIC_POOL, SAMPLERS, Sampler, pairwise_risk

Floats = NDArray[np.float64]
RandomBatch = Callable[..., tuple[Tensor, Tensor, NDArray[np.bool_], Positives]]

every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
seeds = st.integers(0, 2**32 - 1)


def _given(drawn: Tensor, counts: Tensor) -> Sampler:
    """A sampler that leaves nothing to chance."""
    return lambda users, items, positives, count, chance: (drawn, counts)


def _all_unobserved(owned: NDArray[np.bool_], n_candidates: int) -> Sampler:
    """Every candidate that a user has not had, each once."""
    counts = torch.from_numpy(~owned[:, :n_candidates])
    return _given(torch.arange(n_candidates).expand_as(counts), counts)


def _draw(
    sampler: Sampler, users: Tensor, items: Tensor, positives: Positives, count: int, seed: int = 0
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        return sampler(users, items, positives, count, torch.Generator().manual_seed(seed))


def _scores(users: Tensor, items: Tensor) -> Floats:
    scores: Floats = (users @ items.T).detach().numpy()
    return scores


def _by_loops(
    scores: Floats, owned: NDArray[np.bool_], drawn: list[list[int]], counts: list[list[bool]]
) -> float:
    """Rendle et al. 2009, pair by pair: −log σ(f(i) − f(i')), the mean over a user's pairs."""
    of_users = []
    for user, (items, count) in enumerate(zip(drawn, counts, strict=True)):
        losses = [
            -np.log(1 / (1 + np.exp(scores[user, negative] - scores[user, positive])))
            for positive in np.flatnonzero(owned[user])
            for negative, counted in zip(items, count, strict=True)
            if counted
        ]
        of_users.append(np.mean(losses) if losses else 0.0)
    return float(np.mean(of_users))


@settings(max_examples=50)
@given(seeds, st.integers(0, 3), st.integers(0, 6), st.booleans())
def test_it_is_the_mean_over_all_pairs_of_a_positive_and_what_was_drawn(
    random_batch: RandomBatch, seed: int, n_outside: int, n_drawn: int, saturated: bool
) -> None:
    users, items, owned, positives = random_batch(
        seed, n_outside=n_outside, n_candidates=6, saturated=saturated
    )
    random = np.random.default_rng(seed)
    drawn = random.integers(6, size=(len(users), n_drawn))
    counts = random.random(drawn.shape) < 0.6  # what is own is the sampler's business
    given_ones = _given(torch.from_numpy(drawn), torch.from_numpy(counts))
    for sampler, where, which in (
        (given_ones, drawn.tolist(), counts.tolist()),
        (
            _all_unobserved(owned, 6),
            [list(range(6))] * len(users),
            (~owned[:, :6]).tolist(),
        ),
    ):
        actual = pairwise_risk(users, items, positives, sampler, n_drawn)
        expected = _by_loops(_scores(users, items), owned, where, which)
        np.testing.assert_allclose(actual.item(), expected, rtol=1e-8)


def test_finite_differences_agree_with_the_gradient(random_batch: RandomBatch) -> None:
    users, items, owned, positives = random_batch(n_candidates=6, n_outside=2, saturated=True)
    sampler = _all_unobserved(owned, 6)
    assert torch.autograd.gradcheck(
        lambda u, i: pairwise_risk(u, i, positives, sampler, 0), (users, items)
    )


def test_scores_of_any_size_give_a_finite_risk(random_batch: RandomBatch) -> None:
    users, items, owned, positives = random_batch(n_candidates=6, scale=1e4)
    risk = pairwise_risk(users, items, positives, _all_unobserved(owned, 6), 0)
    gradients = torch.autograd.grad(risk, (users, items))
    margins = [
        np.maximum(row[~mine] - row[mine, None], 0).mean()  # what softplus is from afar
        for row, mine in zip(_scores(users, items), owned, strict=True)
    ]
    assert risk.item() == pytest.approx(float(np.mean(margins)), rel=1e-6)
    assert all(bool(gradient.isfinite().all()) for gradient in gradients)


@every_sampler
@settings(max_examples=30)
@given(seeds, st.integers(1, 9), st.integers(0, 4), st.sampled_from([0.1, 1.0, 30.0]))
def test_what_counts_is_exactly_what_the_user_has_not_had(
    random_batch: RandomBatch,
    sampler: Sampler,
    seed: int,
    n_candidates: int,
    n_outside: int,
    scale: float,
) -> None:
    users, items, owned, positives = random_batch(
        seed, n_candidates=n_candidates, n_outside=n_outside, scale=scale
    )
    drawn, counts = _draw(sampler, users, items, positives, 12, seed)
    assert drawn.shape == counts.shape == (len(users), 12)
    assert counts.tolist() == [
        [not owned[user, item] for item in row] for user, row in enumerate(drawn.tolist())
    ]


def test_adaptive_negatives_all_count_while_there_is_one_left(
    positives_of: Callable[..., Positives],
) -> None:
    owned = np.array([[True, True, False, True], [False, False, True, False]])
    users, items = torch.ones(2, 1), torch.tensor([[9.0], [9.0], [-90.0], [0.0]])
    drawn, counts = _draw(SAMPLERS["adaptive"], users, items, positives_of(owned), 100)
    assert counts.all()
    assert set(drawn[0].tolist()) == {2}  # however low it stands
    assert set(drawn[1].tolist()) == {0, 1}  # a difference of 9 is once in 16,000 draws


def test_a_number_on_a_boundary_falls_to_the_share_behind_it(
    positives_of: Callable[..., Positives], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size, **options: torch.tensor([[0.0, 0.5]]))
    owned = np.array([[True, False, True, False, True]])
    drawn, _ = SAMPLERS["adaptive"](
        torch.zeros(1, 1), torch.zeros(5, 1), positives_of(owned), 2, torch.Generator()
    )
    assert drawn.tolist() == [[1, 3]]


@pytest.mark.parametrize("name", [name for name in SAMPLERS if name != "popular"])
def test_only_candidates_are_drawn(random_batch: RandomBatch, name: str) -> None:
    users, items, _, positives = random_batch(n_candidates=5, n_outside=6)
    drawn, _ = _draw(SAMPLERS[name], users, items, positives, 300)
    assert set(drawn.flatten().tolist()) == set(range(5))


@every_sampler
def test_one_user_who_has_had_every_candidate_adds_nothing(
    random_batch: RandomBatch, sampler: Sampler
) -> None:
    users, items, _, positives = random_batch(n_users=1, saturated=True)
    risk = pairwise_risk(users, items, positives, sampler, 5)
    by_users, by_items = torch.autograd.grad(risk, (users, items))
    assert risk.item() == 0
    assert not by_users.any()
    assert not by_items.any()


@every_sampler
def test_a_user_who_has_had_every_candidate_is_no_harm_to_others(
    random_batch: RandomBatch, sampler: Sampler
) -> None:
    users, items, owned, positives = random_batch(n_users=3, n_candidates=6, saturated=True)
    drawn, counts = _draw(sampler, users, items, positives, 40)
    assert not counts[0].any()
    assert counts[1:].any(dim=1).all()
    risk = pairwise_risk(users, items, positives, sampler, 40)
    by_users, by_items = torch.autograd.grad(risk, (users, items))
    expected = _by_loops(_scores(users, items), owned, drawn.tolist(), counts.tolist())
    assert risk.item() == pytest.approx(expected, rel=1e-12)
    assert by_users.any(dim=1).tolist() == [False, True, True]
    assert by_items.isfinite().all()


@every_sampler
def test_draws_depend_on_the_seed_of_the_batch_alone(
    random_batch: RandomBatch, positives_of: Callable[..., Positives], sampler: Sampler
) -> None:
    users, items, owned, _ = random_batch(n_users=6, n_candidates=30)

    def value(seed: int) -> float:
        return pairwise_risk(users, items, positives_of(owned, 30, seed), sampler, 4).item()

    torch.manual_seed(5)
    before = torch.get_rng_state()
    values = [value(seed) for seed in range(20)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert values == [value(seed) for seed in range(20)]
    assert len(set(values)) == 20


def _normalised(shares: NDArray[np.generic]) -> Floats:
    normalised: Floats = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def _uniform(scores: Floats, owned: NDArray[np.bool_], n_candidates: int) -> Floats:
    """Q_u of uniform negatives, (users, items)."""
    shares = (~owned).astype(float)
    shares[:, n_candidates:] = 0
    return _normalised(shares)


def _popular(scores: Floats, owned: NDArray[np.bool_], n_candidates: int) -> Floats:
    """Q_u of popular negatives: how many users of the batch have had an item."""
    return _normalised(owned.sum(axis=0) * ~owned)


def _dynamic(scores: Floats, owned: NDArray[np.bool_], n_candidates: int) -> Floats:
    """Q_u of dynamic negatives: the highest of a pool is i if none of the pool is above i.

    A pool may have no item above the r-th from below in ((own + r) / candidates)^pool of all
    cases, own items being as good as absent.
    """
    shares = np.zeros_like(scores)
    for row, mine, share in zip(scores, owned, shares, strict=True):
        others = np.flatnonzero(~mine[:n_candidates])
        upwards = others[np.argsort(row[others])]
        n_own = n_candidates - len(others)
        at_most = ((n_own + np.arange(len(others) + 1)) / n_candidates) ** DYNAMIC_POOL
        share[upwards] = np.diff(at_most) / (1 - at_most[0])
    return shares


def _adaptive(scores: Floats, owned: NDArray[np.bool_], n_candidates: int) -> Floats:
    """Q_u of adaptive negatives: p_f on I_B ∖ I_u⁺."""
    shares = np.zeros_like(scores)
    unobserved = np.where(owned, -np.inf, scores)[:, :n_candidates]
    shares[:, :n_candidates] = softmax(unobserved, axis=1)
    return shares


DISTRIBUTIONS = {
    "uniform": _uniform,
    "popular": _popular,
    "dynamic": _dynamic,
    "adaptive": _adaptive,
}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("n_outside", [0, 3])
def test_negatives_follow_the_distribution_they_are_said_to(
    random_batch: RandomBatch, name: str, n_outside: int
) -> None:
    users, items, owned, positives = random_batch(n_outside=n_outside)
    drawn, counts = _draw(SAMPLERS[name], users, items, positives, 20_000)
    expected = DISTRIBUTIONS[name](_scores(users, items), owned, 8)
    assert set(expected.sum(axis=1).round(12)) == {1.0}
    for own_draws, counted, shares in zip(drawn, counts, expected, strict=True):
        times = np.bincount(own_draws[counted], minlength=len(shares))
        deviations = np.sqrt(times.sum() * shares * (1 - shares))
        assert (abs(times - times.sum() * shares) <= np.maximum(4 * deviations, 3)).all()
        assert times[shares == 0].sum() == 0


def test_users_and_places_are_drawn_for_independently(random_batch: RandomBatch) -> None:
    users, items, _, positives = random_batch(n_users=20, n_candidates=500)
    for sampler in SAMPLERS.values():
        drawn, _ = _draw(sampler, users * 0, items * 0, positives, 30)
        assert len({tuple(row) for row in drawn.tolist()}) == 20
        assert len({tuple(column) for column in drawn.T.tolist()}) == 30


@pytest.mark.parametrize("name", SAMPLERS)
def test_many_negatives_approach_the_expectation(random_batch: RandomBatch, name: str) -> None:
    """R_pair = Ê₊ E_{Q_u}[s(f(i') − f(i))], within five standard errors."""
    users, items, owned, positives = random_batch()
    scores = _scores(users, items)
    shares = DISTRIBUTIONS[name](scores, owned, 8)
    losses = np.array(
        [
            np.logaddexp(0, row - row[mine, None]).mean(axis=0)
            for row, mine in zip(scores, owned, strict=True)
        ]
    )
    means = (shares * losses).sum(axis=1)
    variances = (shares * losses**2).sum(axis=1) - means**2
    _, counts = _draw(SAMPLERS[name], users, items, positives, 5000)
    error = np.sqrt((variances / counts.sum(dim=1).numpy()).sum()) / len(users)
    actual = pairwise_risk(users, items, positives, SAMPLERS[name], 5000).item()
    assert error > 0
    assert abs(actual - means.mean()) < 5 * error


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(5))
def test_adaptive_negatives_are_bounded_from_below_by_the_wd_risk_of_the_user(
    random_batch: RandomBatch, seed: int, scale: float
) -> None:
    """Section 4.3, Eq. (bpr-ub-proposed): R_pair ≥ s(WD risk) with Q_u = p_f on I_B ∖ I_u⁺."""
    users, items, owned, positives = random_batch(seed, n_users=1, scale=scale)
    bound = np.logaddexp(0, density.wd_risk(users, items, positives).item())
    drawn, counts = _draw(SAMPLERS["adaptive"], users, items, positives, 4000, positives.seed)
    (row,), (mine,) = _scores(users, items), owned
    losses = np.logaddexp(0, row[drawn[0][counts[0]]] - row[mine, None]).mean(axis=0)
    error = losses.std() / np.sqrt(len(losses))
    actual = pairwise_risk(users, items, positives, SAMPLERS["adaptive"], 4000).item()
    assert actual == pytest.approx(losses.mean(), rel=1e-12)  # the draws that were looked at
    assert actual > bound - 5 * error
    gap = np.ptp(row)  # Eq. (jgap-upper-bound)
    assert actual < bound + gap + 5 * error


@settings(max_examples=20)
@given(seeds)
def test_near_zero_its_gradient_is_half_that_of_the_wd_risk(
    random_batch: RandomBatch, seed: int
) -> None:
    """Where all items are alike to f, p_f is uniform and the softplus has slope one half."""
    users, items, owned, positives = random_batch(seed, scale=1e-4)
    assume(not owned.all(axis=1).any())  # to such a user WD leaves the positive term
    pairwise = pairwise_risk(users, items, positives, _all_unobserved(owned, 8), 0)
    wd = density.wd_risk(users, items, positives)
    for of_pairs, of_wd in zip(
        torch.autograd.grad(pairwise, (users, items)),
        torch.autograd.grad(wd, (users, items)),
        strict=True,
    ):
        assert (2 * of_pairs - of_wd).norm() < 1e-3 * of_wd.norm()
