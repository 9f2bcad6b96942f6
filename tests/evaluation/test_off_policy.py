"""Inverse propensities: exact by enumeration of every slate, and unbiased over logged draws."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.evaluation.off_policy import OffPolicyEstimate, inverse_propensity
from densirank.ranking.sampling import draw_slates, log_propensities
from densirank.scores import CalibratedScorer, Calibration, VectorScorer

ITEMS, K = 5, 3
LOGGING = torch.tensor([0.3, -1.0, 0.8, 0.0, 1.4])
TARGET = torch.tensor([2.0, 0.5, -1.0, 0.0, 0.4])
SLATES = list(itertools.permutations(range(ITEMS), K))


def reward(slate: Sequence[int], rank: int) -> float:
    """Of the item at a rank, less if it comes after a better one: it looks up, never down."""
    worth = [1.0, 3.0, 0.5, 2.0, -1.0]
    better = sum(worth[above] > worth[slate[rank]] for above in slate[:rank])
    return worth[slate[rank]] / (1 + better)


REWARDS = np.array([[reward(slate, rank) for rank in range(K)] for slate in SLATES])


def conditional(logits: torch.Tensor) -> Any:
    """The log-propensities of all slates, (slates, ranks)."""
    return log_propensities(logits.repeat(len(SLATES), 1), torch.tensor(SLATES)).numpy()


def test_over_all_slates_the_estimator_s_expectation_is_the_target_s_reward() -> None:
    logging, target = conditional(LOGGING), conditional(TARGET)
    truth = np.exp(target.sum(axis=1)) @ REWARDS
    expectation = np.zeros(K)
    for row in range(len(SLATES)):
        logged = [np.tile(column[row], 2) for column in (REWARDS, logging, target)]
        estimate = inverse_propensity(np.tile(np.arange(1, K + 1), 2), *logged)
        expectation += math.exp(logging[row].sum()) * estimate.values
    np.testing.assert_allclose(expectation, truth, rtol=1e-5)


@pytest.fixture(scope="module")
def logged() -> Any:
    """Slates drawn from the planted truth of many users: (slate, items, log-propensity, world)."""
    world = planted(4000, 12, rank=3, items_per_user=2, test_items_per_user=1, seed=4)
    logits = torch.from_numpy(world.log_density(np.arange(4000))).float()
    density = CalibratedScorer(VectorScorer(logits, torch.eye(12)), Calibration(), torch.zeros(12))
    (slates,) = draw_slates(density, torch.arange(4000), 2, temperature=2.0, seed=11)
    return logits, slates


def estimate_of(logged: Any, target: torch.Tensor, *, self_normalised: bool) -> OffPolicyEstimate:
    """Of a policy's chance to list an even item, at each of two ranks."""
    _, slates = logged
    log_targets = log_propensities(target.clone(), slates.items)
    return inverse_propensity(
        np.tile([1, 2], len(slates.items)),
        (slates.items % 2 == 0).flatten(),
        slates.log_propensities.flatten(),
        log_targets.flatten(),
        self_normalised=self_normalised,
    )


def exact_values(target: torch.Tensor) -> list[float]:
    """The same chance, summed over every pair of items for every user."""
    p = target.double().softmax(dim=1)
    even = (torch.arange(p.shape[1]) % 2 == 0).double()
    left = 1 - p  # (users, first item): mass for the second draw
    second = (p / left * (p @ even)[:, None] - p**2 / left * even).sum(dim=1)
    return [float((p @ even).mean()), float(second.mean())]


@pytest.mark.parametrize("self_normalised", [False, True])
@pytest.mark.parametrize("sharpness", [0.5, 1.0])
def test_logged_draws_of_a_planted_density_tell_what_other_policies_earn(
    logged: Any, sharpness: float, self_normalised: bool
) -> None:
    target = logged[0] * sharpness
    estimate = estimate_of(logged, target, self_normalised=self_normalised)
    truth = exact_values(target)
    assert (np.abs(estimate.values - truth) < 4 * estimate.standard_errors).all()
    assert (estimate.standard_errors < 0.1).all()
    assert estimate.total == pytest.approx(estimate.values.sum())


def test_the_logging_policy_itself_has_weights_of_one(logged: Any) -> None:
    estimate = estimate_of(logged, logged[0] / 2.0, self_normalised=False)
    even = (logged[1].items % 2 == 0).double().numpy()
    np.testing.assert_allclose(estimate.values, even.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(estimate.effective_slates, len(even), rtol=1e-4)
    np.testing.assert_allclose(
        estimate.standard_errors, even.std(axis=0, ddof=1) / math.sqrt(len(even)), rtol=1e-3
    )
    whole = even.sum(axis=1).std(ddof=1) / math.sqrt(len(even))
    assert estimate.total_standard_error == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize("self_normalised", [False, True])
def test_the_standard_error_is_the_spread_of_the_estimate(self_normalised: bool) -> None:
    random = np.random.default_rng(0)
    logging, target = conditional(LOGGING)[:, 0], conditional(TARGET)[:, 0]
    slate_shares = np.exp(conditional(LOGGING).sum(axis=1))
    estimates = []
    for _ in range(400):
        drawn = random.choice(len(SLATES), 200, p=slate_shares / slate_shares.sum())
        estimates.append(
            inverse_propensity(
                np.ones(200, dtype=int),
                REWARDS[drawn, 0],
                logging[drawn],
                target[drawn],
                self_normalised=self_normalised,
            )
        )
    spread = np.std([estimate.values[0] for estimate in estimates])
    said = np.mean([estimate.standard_errors[0] for estimate in estimates])
    assert said == pytest.approx(spread, rel=0.15)


def test_a_policy_that_always_lists_the_same_is_told_from_the_slates_that_agree() -> None:
    logged = np.log([0.5, 0.25, 0.5, 0.5])
    always_first = [0.0, -math.inf, 0.0, 0.0]
    estimate = inverse_propensity([1, 1, 1, 1], [1, 5, 0, 1], logged, always_first)
    assert estimate.values[0] == pytest.approx((2 + 0 + 0 + 2) / 4)
    normalised = inverse_propensity(
        [1, 1, 1, 1], [1, 5, 0, 1], logged, always_first, self_normalised=True
    )
    assert normalised.values[0] == pytest.approx(2 / 3)


def test_a_slate_that_ended_early_earns_nothing_further_down() -> None:
    estimate = inverse_propensity([1, 2, 1], [1, 1, 1], [-1, 0, 0], [-1, 0, 0])
    np.testing.assert_allclose(estimate.values, [1, 0.5])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (([1, 1], [1], [0, 0], [0, 0]), "differ in length"),
        (([], [], [], []), "no logged slates"),
        (([2, 1], [1, 1], [0, 0], [0, 0]), "must run 1, 2, 3"),
        (([1, 3], [1, 1], [0, 0], [0, 0]), "must run 1, 2, 3"),
        (([1, 1], [1, math.nan], [0, 0], [0, 0]), "rewards must be finite"),
        (([1, 1], [1, 1], [0, -math.inf], [0, 0]), "finite and at most 0"),
        (([1, 1], [1, 1], [0, 0.5], [0, 0]), "finite and at most 0"),
        (([1, 1], [1, 1], [0, 0], [0, math.nan]), "log-targets must be at most 0"),
        (([1, 2], [1, 1], [0, 0], [0, 0]), "at least two slates"),
    ],
)
def test_logs_that_cannot_be_used_get_a_sentence(columns: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        inverse_propensity(*columns)


def test_without_a_slate_of_the_target_there_is_no_self_normalised_estimate() -> None:
    never = [-math.inf, -math.inf]
    assert inverse_propensity([1, 1], [1, 1], [0, 0], never).values.tolist() == [0]
    with pytest.raises(InputError, match="draws none of the logged slates"):
        inverse_propensity([1, 1], [1, 1], [0, 0], never, self_normalised=True)
