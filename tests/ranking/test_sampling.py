"""Drawn slates against every slate there is, with its probability written out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.ranking.blocks import COPIES
from densirank.ranking.sampling import (
    draw_slates,
    gumbel_noise,
    log_propensities,
    slate_log_propensities,
)
from densirank.ranking.topk import Lists
from densirank.scores import CalibratedScorer, Calibration, VectorScorer


def scorer_of(logits: Tensor) -> VectorScorer:
    """A scorer whose scores are these: every item has an axis of its own."""
    return VectorScorer(logits, torch.eye(logits.shape[1]))


def density_of(logits: Tensor, calibration: Calibration | None = None) -> CalibratedScorer:
    counts = torch.arange(logits.shape[1])
    return CalibratedScorer(scorer_of(logits), calibration or Calibration(), counts)


def conditionals(weights: Sequence[float], slate: Sequence[int]) -> list[float]:
    """P(item | items before it), straight from the definition of successive draws."""
    found, left = [], sum(weights)
    for item in slate:
        found.append(weights[item] / left)
        left -= weights[item]
    return found


def only(blocks: Iterable[Lists]) -> Any:
    (slates,) = blocks
    return slates


@pytest.mark.parametrize("k", [1, 3, 5])
def test_propensities_of_all_slates_are_plackett_luce_and_sum_to_one(k: int) -> None:
    weights = [0.1, 2.0, 0.7, 5.0, 1.3]
    slates = list(itertools.permutations(range(5), k))
    logits = torch.tensor(weights).log().repeat(len(slates), 1)
    found = log_propensities(logits, torch.tensor(slates)).exp().numpy()
    np.testing.assert_allclose(found, [conditionals(weights, slate) for slate in slates], rtol=1e-5)
    assert found.prod(axis=1).sum() == pytest.approx(1, rel=1e-5)


def test_propensities_hold_where_the_first_draws_take_all_the_mass() -> None:
    logits = torch.tensor([[60.0, 30.0, 0.0, -1.0]])
    found = log_propensities(logits, torch.tensor([[0, 1, 2, 3]]))
    expected = [0, 0, -math.log1p(math.exp(-1)), 0]
    np.testing.assert_allclose(found.numpy()[0], expected, atol=1e-6)


def test_an_impossible_item_has_no_probability_and_its_slate_goes_on() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0, 0.0]])
    found = log_propensities(logits, torch.tensor([[0, 1, 2, -1]])).exp()
    np.testing.assert_allclose(found.numpy(), [[1 / 3, 0, 1 / 2, 0]], rtol=1e-6)


def test_slates_come_as_often_as_their_propensity_says() -> None:
    n, temperature = 20_000, 1.7
    calibration = Calibration(temperature=0.8, popularity_exponent=0.5)
    density = density_of(torch.tensor([[1.0, 0.0, -0.5, 0.7]]).repeat(n, 1), calibration)
    drawn = only(draw_slates(density, torch.arange(n), 2, temperature, seed=5))
    seen = Counter(map(tuple, drawn.items.tolist()))
    policy = np.exp(density.scores(torch.tensor([0]))[0].double().numpy() / temperature).tolist()
    slates = list(itertools.permutations(range(4), 2))
    expected = {slate: n * math.prod(conditionals(policy, slate)) for slate in slates}
    assert set(seen) == set(slates)
    fit = stats.chisquare([seen[slate] for slate in slates], [expected[s] for s in slates])
    assert fit.pvalue > 0.001
    for row in range(20):
        slate = tuple(drawn.items[row].tolist())
        probability = float(drawn.log_propensities[row].sum().exp())
        assert probability == pytest.approx(expected[slate] / n, rel=1e-5)


def test_a_slate_depends_on_the_seed_and_the_user_and_on_nothing_else() -> None:
    random = torch.Generator().manual_seed(0)
    density = density_of(torch.randn(40, 12, generator=random))
    users = torch.arange(40)
    whole = only(draw_slates(density, users, 5, 1.0, seed=3))
    small = list(draw_slates(density, users, 5, 1.0, seed=3, budget_bytes=7 * COPIES * 4 * 12))
    assert len(small) == 6
    assert torch.equal(torch.cat([part.items for part in small]), whole.items)
    some = torch.tensor([31, 4, 31])
    alone = only(draw_slates(density, some, 5, 1.0, seed=3))
    assert torch.equal(alone.items, whole.items[some])
    torch.testing.assert_close(alone.log_propensities, whole.log_propensities[some])
    other = only(draw_slates(density, users, 5, 1.0, seed=4))
    assert not torch.equal(other.items, whole.items)


def test_a_slate_ends_where_nothing_is_left_and_holds_no_nan() -> None:
    density = density_of(torch.zeros(3, 4))
    seen = Rows(torch.tensor([0, 4, 7, 7]), torch.tensor([0, 1, 2, 3, 0, 1, 2]))
    drawn = only(draw_slates(density, torch.arange(3), 6, 1.0, seed=0, seen=seen))
    assert drawn.items[:2].tolist() == [[-1] * 4, [3, -1, -1, -1]]
    assert sorted(drawn.items[2].tolist()) == [0, 1, 2, 3]
    there = drawn.items >= 0
    assert torch.isfinite(drawn.log_propensities[there]).all()
    assert torch.isneginf(drawn.log_propensities[~there]).all()
    expected = [0.0, *np.log([1 / 4, 1 / 3, 1 / 2, 1])]
    np.testing.assert_allclose(drawn.log_propensities[there], expected, atol=1e-6)


def test_given_slates_have_the_propensities_they_were_drawn_with() -> None:
    random = torch.Generator().manual_seed(2)
    density = density_of(torch.randn(30, 8, generator=random), Calibration(0.7, 0.3))
    users, excluded = torch.arange(30), torch.tensor([5])
    drawn = only(draw_slates(density, users, 7, 2.0, seed=1, excluded=excluded))
    again = slate_log_propensities(
        density, users, drawn.items, 2.0, excluded=excluded, budget_bytes=4 * COPIES * 4 * 8
    )
    torch.testing.assert_close(again, drawn.log_propensities, rtol=1e-5, atol=1e-6)


def test_a_low_temperature_draws_the_best_and_a_high_one_draws_evenly() -> None:
    n = 3000
    density = density_of(torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(n, 1))
    cold = only(draw_slates(density, torch.arange(n), 4, 0.02, seed=0))
    assert torch.equal(cold.items, torch.arange(4).expand(n, 4))
    hot = only(draw_slates(density, torch.arange(n), 1, 1e4, seed=0))
    assert stats.chisquare(np.bincount(hot.items[:, 0], minlength=4)).pvalue > 0.001


@pytest.mark.parametrize("temperature", [1e-6, 1e6])
def test_extreme_temperatures_and_scores_leave_every_number_finite(temperature: float) -> None:
    density = density_of(torch.tensor([[3000.0, -3000.0, 2999.0, 0.0]]))
    drawn = only(draw_slates(density, torch.tensor([0]), 4, temperature, seed=0))
    assert sorted(drawn.items[0].tolist()) == [0, 1, 2, 3]
    assert torch.isfinite(drawn.log_propensities).all()
    assert (drawn.log_propensities <= 0).all()


def test_noise_is_standard_gumbel_and_differs_between_users_and_seeds() -> None:
    noise = gumbel_noise(torch.tensor([0, 1]), 20_000, seed=9)
    other = gumbel_noise(torch.tensor([0]), 20_000, seed=10)
    assert stats.kstest(noise.numpy().ravel(), "gumbel_r").pvalue > 0.001
    correlations = np.corrcoef(np.concatenate([noise.numpy(), other.numpy()]))
    assert np.abs(correlations - np.eye(3)).max() < 0.04


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_slates_on_a_gpu_equal_those_on_a_cpu() -> None:
    logits = torch.randn(50, 300, generator=torch.Generator().manual_seed(0))
    on_cpu = only(draw_slates(density_of(logits), torch.arange(50), 20, 1.5, seed=1))
    vectors = VectorScorer(logits.cuda(), torch.eye(300).cuda())
    gpu = CalibratedScorer(vectors, Calibration(), torch.arange(300))
    on_gpu = only(draw_slates(gpu, torch.arange(50).cuda(), 20, 1.5, seed=1))
    assert on_gpu.items.tolist() == on_cpu.items.tolist()
    torch.testing.assert_close(on_gpu.log_propensities.cpu(), on_cpu.log_propensities)
