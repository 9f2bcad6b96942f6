from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from densirank.data.interactions import Interactions
from densirank.data.synthetic import Planted, kl_divergence, planted
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError


def test_what_is_drawn_follows_the_density() -> None:
    """All users alike: first draws have frequencies p, second ones p renormalised."""
    world = planted(20_000, 6, items_per_user=1, test_items_per_user=1, concentration=0, seed=11)
    density = np.exp(world.log_density([0])[0])
    assert np.allclose(density, np.exp(world.log_density([1])[0]))
    first, second = world.train.items, world.test.items
    assert len(first) == len(second) == 20_000
    assert stats.chisquare(np.bincount(first, minlength=6), density * 20_000).pvalue > 0.01
    for past in range(6):
        after = np.bincount(second[first == past], minlength=6)
        left = np.delete(density, past)
        expected = left / left.sum() * after.sum()
        assert after[past] == 0
        assert stats.chisquare(np.delete(after, past), expected).pvalue > 0.001


def test_each_user_draws_from_their_own_density() -> None:
    world = planted(3000, 40, items_per_user=1, test_items_per_user=1, concentration=2, seed=2)
    log_density = world.log_density(np.arange(3000))
    drawn = log_density[np.arange(3000), world.train.items]
    entropy = -(np.exp(log_density) * log_density).sum(axis=1)
    assert abs(drawn.mean() + entropy.mean()) < 0.1
    assert drawn.mean() > log_density.mean() + 0.5


def test_vectors_are_the_density() -> None:
    world = planted(5, 7, rank=3, items_per_user=2, test_items_per_user=2)
    logits = world.user_vectors @ world.item_vectors.T
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert np.allclose(np.exp(world.log_density(range(5))), expected)
    assert world.user_vectors.shape == (5, 4)
    assert (world.user_vectors[:, -1] == 1).all()


def test_shape_of_the_data() -> None:
    world = planted(400, 300, items_per_user=15, test_items_per_user=4, seed=3)
    assert world.train.ordered
    assert world.test.ordered
    assert (world.train.n_users, world.train.n_items) == (400, 300)
    assert world.test.item_ids is world.train.item_ids
    assert (world.test.user_counts == 4).all()
    assert world.train.user_counts.min() >= 1
    assert 13 < world.train.user_counts.mean() < 17
    assert len(np.unique(world.train.user_counts)) > 10
    assert set(world.train.pairs()).isdisjoint(world.test.pairs())


def test_seed_decides_and_block_size_does_not() -> None:
    def make(seed: int) -> Planted:
        return planted(60, 50, items_per_user=5, seed=seed)

    first, other = make(1), make(2)
    with patch("densirank.data.synthetic._BLOCK_CELLS", 350):
        again = make(1)
    assert again.train.items.tolist() == first.train.items.tolist()
    assert again.test.items.tolist() == first.test.items.tolist()
    assert other.train.items.tolist() != first.train.items.tolist()


def test_small_catalogues_leave_something_unseen() -> None:
    world = planted(200, 8, items_per_user=50, test_items_per_user=2)
    assert world.train.user_counts.max() == 5
    with pytest.raises(InputError, match="3 items are too few"):
        planted(5, 3, test_items_per_user=2)
    with pytest.raises(InputError, match="at least 1"):
        planted(0, 30)


def test_kl_is_zero_for_the_truth_and_not_for_others() -> None:
    world = planted(30, 20, items_per_user=4, test_items_per_user=2, seed=4)

    def uniform(users: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.zeros((len(users), 20))

    def shifted(users: NDArray[np.int64]) -> NDArray[np.float64]:
        return world.log_density(users) + users[:, None]

    assert kl_divergence(world, world.log_density) == pytest.approx(0, abs=1e-12)
    assert kl_divergence(world, shifted) == pytest.approx(0, abs=1e-12)
    far = kl_divergence(world, uniform)
    assert far > 0.5
    with patch("densirank.data.synthetic._BLOCK_CELLS", 45):
        assert kl_divergence(world, uniform) == pytest.approx(far)
    halves = [kl_divergence(world, uniform, users) for users in (range(15), range(15, 30))]
    assert np.mean(halves) == pytest.approx(far)
    with pytest.raises(InputError, match=r"shape \(3, 30\), expected \(30, 20\)"):
        kl_divergence(world, lambda users: np.zeros((3, 30)))


def test_kl_of_a_case_worked_by_hand() -> None:
    """Three items with p = ½, ¼, ¼; the user has the first, so ½ and ½ are left of the truth."""
    three = Vocabulary(range(3))
    train = Interactions.from_codes(np.array([0]), np.array([0]), Vocabulary([0]), three)
    world = Planted(train, train, np.ones((1, 1)), np.log([[0.5], [0.25], [0.25]]))

    def estimate(users: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.log([[0.6, 0.3, 0.1]])

    expected = 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25)
    assert kl_divergence(world, estimate) == pytest.approx(expected)
