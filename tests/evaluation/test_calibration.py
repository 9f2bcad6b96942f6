"""The fitted temperature and exponent against dense references and planted truths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import optimize, special
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.evaluation.calibration import (
    Floats,
    Likelihood,
    fit_calibration,
    likelihood,
    maximum,
)
from densirank.evaluation.held_out import Draws, HeldOut
from densirank.linalg.csr import Rows
from densirank.scores import VectorScorer

USERS, ITEMS, DRAWS = 60, 25, 40
CPU = torch.device("cpu")


class World:
    """Scores, popularities, and held-out items drawn from p ∝ popularity^β · exp(f / T).

    Users may draw an item more than once here, which makes each draw exactly one from p.
    """

    def __init__(self, temperature: float, exponent: float, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.scores = random.normal(scale=2.0, size=(USERS, ITEMS))
        self.log_popularity = random.normal(size=ITEMS)
        seen = random.random((USERS, ITEMS)) < 0.2
        logits = self.scores / temperature + exponent * self.log_popularity
        self.barred = np.where(seen, -np.inf, 0.0)
        p = special.softmax(logits + self.barred, axis=1)
        self.drawn = np.stack([random.choice(ITEMS, DRAWS, p=row) for row in p])
        self.scorer = VectorScorer(torch.tensor(self.scores).float(), torch.eye(ITEMS))
        own, columns = (torch.from_numpy(part) for part in seen.nonzero())
        counts = torch.bincount(own, minlength=USERS)
        self.draws = Draws(
            torch.arange(USERS),
            _rows(torch.full((USERS,), DRAWS), torch.from_numpy(self.drawn).flatten()),
            _rows(counts, columns),
        )

    @property
    def popularity(self) -> Tensor:
        return torch.tensor(self.log_popularity).float()

    def mean_log_likelihood(self, point: NDArray[np.float64]) -> float:
        logits = point[0] * self.scores + point[1] * self.log_popularity + self.barred
        log_p = special.log_softmax(logits, axis=1)
        return float(np.take_along_axis(log_p, self.drawn, axis=1).mean())


def _rows(counts: Tensor, columns: Tensor) -> Rows:
    return Rows(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), columns)


@pytest.mark.parametrize("point", [(0.0, 0.0), (0.6, -0.3), (1.5, 0.8)])
def test_value_slope_and_curvature_are_those_of_the_dense_likelihood(
    point: tuple[float, float],
) -> None:
    world, at = World(2.0, 0.5), np.array(point)
    found = likelihood(world.scorer, world.draws, world.popularity, *point)
    assert found.value == pytest.approx(world.mean_log_likelihood(at), rel=1e-5)
    slope = optimize.approx_fprime(at, world.mean_log_likelihood, 1e-6)
    np.testing.assert_allclose(found.slope, slope, atol=1e-4)

    def slope_at(where: Floats) -> Floats:
        return likelihood(world.scorer, world.draws, world.popularity, *where).slope

    columns = [(slope_at(at - h) - slope_at(at + h)) / 0.02 for h in 0.01 * np.eye(2)]
    np.testing.assert_allclose(found.curvature, columns, rtol=0.01, atol=1e-3)


@pytest.mark.parametrize(("temperature", "exponent"), [(3.0, 0.0), (0.4, 0.0), (1.5, -0.7)])
def test_the_fit_is_the_maximum_and_near_the_truth(temperature: float, exponent: float) -> None:
    world = World(temperature, exponent)
    found = fit_calibration(world.scorer, world.draws, world.popularity, popularity=exponent != 0)
    free = 2 if exponent else 1
    best = optimize.minimize(
        lambda x: -world.mean_log_likelihood(np.pad(x, (0, 2 - free))), np.ones(free), tol=1e-10
    )
    fitted = [1 / found.temperature, found.popularity_exponent][:free]
    np.testing.assert_allclose(fitted, best.x, rtol=2e-3)
    assert found.temperature == pytest.approx(temperature, rel=0.1)
    assert found.popularity_exponent == pytest.approx(exponent, abs=0.1)
    assert found.held_out_items == USERS * DRAWS
    untouched = world.mean_log_likelihood(np.array([1.0, 0.0]))
    assert found.gain == pytest.approx(-best.fun - untouched, abs=1e-4)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_scores_of_any_scale_are_brought_to_the_same_density(scale: float) -> None:
    world = World(1.0, 0.0)
    vectors = world.scorer.user_vectors * scale
    scaled = VectorScorer(vectors, world.scorer.item_vectors)
    once = fit_calibration(world.scorer, world.draws, world.popularity, popularity=False)
    found = fit_calibration(scaled, world.draws, world.popularity, popularity=False)
    assert found.temperature == pytest.approx(scale * once.temperature, rel=1e-3)


def test_scores_that_are_the_log_popularity_itself_share_the_exponent() -> None:
    world = World(1.0, 0.8)
    twin = VectorScorer(torch.ones(USERS, 1), world.popularity.unsqueeze(1))
    alone = fit_calibration(twin, world.draws, world.popularity, popularity=False)
    both = fit_calibration(twin, world.draws, world.popularity, popularity=True)
    total = 1 / both.temperature + both.popularity_exponent
    assert total == pytest.approx(1 / alone.temperature, rel=1e-3)


def test_scores_that_say_nothing_or_the_reverse_are_refused() -> None:
    world = World(1.0, 0.0)
    flat = VectorScorer(torch.zeros(USERS, ITEMS), torch.eye(ITEMS))
    reverse = VectorScorer(-world.scorer.user_vectors, torch.eye(ITEMS))
    for scorer in (flat, reverse):
        with pytest.raises(InputError, match="do not rank held-out items above"):
            fit_calibration(scorer, world.draws, world.popularity, popularity=False)


def test_a_scorer_that_is_never_wrong_gets_a_small_but_finite_temperature() -> None:
    world = World(1.0, 0.0)
    best = torch.tensor(world.scores + world.barred).argmax(dim=1)
    draws = Draws(world.draws.users, _rows(torch.ones(USERS).long(), best), world.draws.seen)
    found = fit_calibration(world.scorer, draws, world.popularity, popularity=False)
    assert 0 < found.temperature < 0.2


def test_newton_steps_that_overshoot_are_halved_until_they_climb() -> None:
    def ridge(point: Floats) -> Likelihood:
        """−√(1 + (x − 5)²): from zero, a Newton step ends at 130, and the next far below."""
        x = float(point[0]) - 5
        root = np.sqrt(1 + x**2)
        return Likelihood(-root, np.array([-x / root]), np.array([[root**-3]]))

    point, value = maximum(ridge, 1)
    assert point[0] == pytest.approx(5, abs=1e-3)
    assert value == pytest.approx(-1, abs=1e-5)


def test_draws_are_the_held_out_items_that_are_known_and_new() -> None:
    seen = Interactions.from_pairs([0, 0, 1, 2, 2], [0, 1, 2, 3, 0])
    test = Interactions.from_pairs([0, 0, 1, 1, 2, 9], [0, 2, 77, 0, 3, 0])
    draws = HeldOut(test, seen, CPU).draws(max_users=10)
    assert draws.users.tolist() == [0, 1]
    taken = draws.items.take(torch.arange(3))
    assert (taken.counts.tolist(), taken.columns.tolist()) == ([1, 1, 0], [2, 0])
    with pytest.raises(InputError, match="no held-out item can be predicted"):
        HeldOut(seen, seen, CPU).draws(max_users=10)


def test_of_many_held_out_users_the_same_sample_is_taken_every_time() -> None:
    seen = Interactions.from_pairs(np.arange(500), np.arange(500) % 2)
    test = Interactions.from_pairs(np.arange(500), 1 - np.arange(500) % 2)
    held_out = HeldOut(test, seen, CPU)
    first, second = (held_out.draws(max_users=100).users for _ in range(2))
    assert torch.equal(first, second)
    assert len(set(first.tolist())) == 100
    assert first.max() > 400
