from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from densirank import Interactions
from densirank.data.share import of_users
from densirank.risks.weighting import DensitySettings, Weighting
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler

CPU = torch.device("cpu")
ROWS = [[3, 1, 0], [0, 2], [0], [1, 3, 2, 0]]


def _data(ordered: bool = True) -> Interactions:
    users = [u for u, row in enumerate(ROWS) for _ in row]
    return Interactions.from_pairs(users, [i for row in ROWS for i in row], ordered=ordered)


def _weighting(**settings: Any) -> Weighting:
    return Weighting.of(_data(), DensitySettings(**settings), CPU)


def test_nothing_is_weighted_unless_it_is_asked_for() -> None:
    assert _weighting() == Weighting(None, None, None)


def test_recent_items_weigh_exponentially_more_and_a_users_weights_sum_to_one() -> None:
    weights = _weighting(recency=2.0).pairs
    assert weights is not None
    start = 0
    for row in ROWS:
        places = np.arange(len(row)) / max(1, len(row) - 1)
        expected = np.exp(2 * places) / np.exp(2 * places).sum()
        np.testing.assert_allclose(weights[start : start + len(row)], expected, rtol=1e-6)
        start += len(row)


def test_users_weigh_a_power_of_their_number_of_items_and_one_on_average() -> None:
    weights = _weighting(user_exponent=0.5).users
    assert weights is not None
    roots = np.sqrt([len(row) for row in ROWS])
    np.testing.assert_allclose(weights, roots / roots.mean(), rtol=1e-6)


def test_a_user_without_items_weighs_nothing() -> None:
    whole = _data()
    some = whole.select(whole.users != 2)
    weights = Weighting.of(some, DensitySettings(user_exponent=1.0), CPU).users
    assert weights is not None
    np.testing.assert_allclose(weights, [1, 2 / 3, 0, 4 / 3], rtol=1e-6)


def test_the_base_density_is_a_power_of_popularity() -> None:
    log_base = _weighting(base_exponent=0.25).log_base
    assert log_base is not None
    differences = 0.25 * np.log(np.array([4, 2, 2, 2]) / 4)
    np.testing.assert_allclose(log_base - log_base[0], differences, atol=1e-6)


def test_the_candidate_correction_is_the_chance_to_be_in_a_batch() -> None:
    """Against batches that are really drawn: how often each item is a candidate."""
    users_per_batch, draws = 2, 4000
    settings = DensitySettings(candidate_correction=1.0, users_per_batch=users_per_batch)
    rows = [[0], [0], [0, 1], [0, 1, 2], [0], [0, 3], [3], [3, 2]]
    data = Interactions.from_pairs(
        [u for u, row in enumerate(rows) for _ in row], [i for row in rows for i in row]
    )
    log_base = Weighting.of(data, settings, CPU).log_base
    assert log_base is not None
    sampler = BatchSampler(data, users_per_batch, "batch", 0, CPU)
    often = np.zeros(data.n_items)
    for iteration in range(draws):
        often[sampler(iteration).candidates] += 1
    pairs_of_users = math.comb(data.n_users, users_per_batch)
    chance = 1 - np.array(
        [math.comb(data.n_users - n, users_per_batch) / pairs_of_users for n in data.item_counts]
    )
    np.testing.assert_allclose(log_base[0] - log_base, np.log(chance / chance[0]), atol=1e-5)
    np.testing.assert_allclose(often / draws, chance, atol=0.03)


def test_an_exact_sum_needs_no_correction() -> None:
    settings = DensitySettings(candidate_correction=1.0, candidates="all")
    assert Weighting.of(_data(), settings, CPU).log_base is None


@pytest.mark.parametrize("candidates", ["batch", "all", 2])
@pytest.mark.parametrize("padded", [False, True])
def test_a_batch_carries_the_weights_of_its_own_users_pairs_and_items(
    candidates: Candidates, padded: bool
) -> None:
    data = _data()
    settings = DensitySettings(recency=1.0, user_exponent=0.5, base_exponent=1.0)
    weighting = Weighting.of(data, settings, CPU)
    assert weighting.pairs is not None
    assert weighting.users is not None
    assert weighting.log_base is not None
    sampler = BatchSampler(data, 3, candidates, 0, CPU, weighting)
    for iteration in range(4):
        draw = sampler.draw(iteration)
        batch = sampler.arrange_padded(draw) if padded else sampler.arrange(draw)
        positives = batch.positives
        assert positives.weights is not None
        assert positives.user_weights is not None
        assert positives.log_base is not None
        torch.testing.assert_close(positives.user_weights, weighting.users[batch.users])
        torch.testing.assert_close(positives.log_base, weighting.log_base[batch.items])
        for row, user in enumerate(batch.users.tolist()):
            own = slice(*positives.indptr[row : row + 2].tolist())
            found = dict(
                zip(
                    batch.items[positives.columns[own]].tolist(),
                    positives.weights[own].tolist(),
                    strict=True,
                )
            )
            start, stop = data.indptr[user : user + 2]
            expected = dict(
                zip(
                    data.items[start:stop].tolist(),
                    weighting.pairs[start:stop].tolist(),
                    strict=True,
                )
            )
            assert found == expected


def test_a_process_weighs_the_pairs_of_its_users_as_one_process_would() -> None:
    whole = _data()
    weighted = replace(whole, weights=np.arange(1, len(whole) + 1, dtype=np.float32))
    settings = DensitySettings(recency=1.0)
    everybody = Weighting.of(weighted, settings, CPU).pairs
    own = of_users(weighted, range(1, 4))
    counts = weighted.user_counts, weighted.item_counts
    part = Weighting.of(own, settings, CPU, *counts).pairs
    assert everybody is not None
    assert part is not None
    torch.testing.assert_close(part, everybody[len(ROWS[0]) :], rtol=0, atol=0)


def test_people_who_come_later_have_the_weights_of_their_pairs() -> None:
    histories = Interactions.from_pairs([0, 0, 1], [0, 1, 2], weights=[1.0, 3.0, 8.0])
    weighting = Weighting.of_new_users(histories, np.ones(3, dtype=int), DensitySettings(), CPU)
    assert weighting.pairs is not None
    assert weighting.pairs.tolist() == [0.25, 0.75, 1.0]
