"""The statistics against SciPy, all ways to deal a small table, and planted truth."""

from __future__ import annotations

import math
from dataclasses import astuple
from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy import optimize, stats

from densirank.errors import InputError
from densirank.evaluation import significance
from densirank.evaluation.metrics import Floats
from densirank.evaluation.significance import (
    classical_tukey_hsd,
    compare,
    paired_effect,
    randomised_tukey_hsd,
    unpaired_g,
)

SMALL_TABLES = {
    "3 × 3": [[5, 1, 0], [4, 3, 1], [2, 2, 0]],
    "3 × 3 with ties": [[1, 0, 0], [1, 1, 0], [0, 0, 0]],
    "2 × 4": [[9, 4, 2, 1], [7, 5, 3, 0]],
    "4 × 3": [[3, 0, 1], [5, 2, 2], [8, 1, 7], [4, 0, 0]],
    "7 × 2": [[3, 1], [5, 2], [4, 0], [1, 0], [6, 7], [2, 1], [8, 5]],
}


def table(name: str) -> Floats:
    return np.array(SMALL_TABLES[name], dtype=np.float64)


def noise(users: int, systems: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((users, systems))


def graded(users: int, systems: int, step: float) -> Floats:
    """Noise around means that fall from system to system."""
    return noise(users, systems) - step * np.arange(systems)


def named(scores: Floats) -> dict[str, Floats]:
    return {f"system {place}": column for place, column in enumerate(scores.T)}


def exact_p(scores: Floats) -> list[float]:
    """The share of all ways to deal each row whose range of sums reaches the gap of a pair."""
    rows = [list(permutations(row)) for row in scores.astype(int).tolist()]
    sums = np.array(list(product(*rows))).sum(axis=1)  # whole numbers: ties are exact
    ranges = np.ptp(sums, axis=1)
    observed = scores.sum(axis=0)
    return [float((ranges >= abs(a - b)).mean()) for a, b in combinations(observed, 2)]


def standard_error(p: Floats, trials: int) -> Floats:
    error: Floats = np.sqrt(p * (1 - p) / trials)
    return error


@pytest.mark.parametrize("block_bytes", [1, significance.BLOCK_BYTES])
@pytest.mark.parametrize("name", SMALL_TABLES)
def test_the_paired_p_is_the_share_of_all_ways_to_deal_the_rows(
    name: str, block_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(significance, "BLOCK_BYTES", block_bytes)
    exact = np.array(exact_p(table(name)))
    found = randomised_tukey_hsd(table(name), trials=40_000, seed=1)
    assert (np.abs(found - exact) <= 4 * standard_error(exact, 40_000)).all()


def test_the_share_has_the_mean_and_the_variance_of_independent_trials() -> None:
    scores, trials, runs = table("4 × 3"), 90, 3000
    exact = np.array(exact_p(scores))
    assert ((exact > 0.01) & (exact < 0.99)).all()
    shares = np.array([randomised_tukey_hsd(scores, trials, seed) for seed in range(runs)])
    error = standard_error(exact, trials)
    assert (np.abs(shares.mean(axis=0) - exact) <= 4 * error / math.sqrt(runs)).all()
    assert shares.std(axis=0) == pytest.approx(error, rel=0.08)


def test_the_paired_p_equals_that_of_rows_permuted_one_trial_after_another() -> None:
    scores, trials = graded(300, 5, step=0.1), 4000
    random = np.random.default_rng(1)
    ranges = np.array([np.ptp(random.permuted(scores, axis=1).mean(axis=0)) for _ in range(trials)])
    gaps = np.array([abs(a - b) for a, b in combinations(scores.mean(axis=0), 2)])
    plain = (ranges[:, None] >= gaps).mean(axis=0)
    assert plain.min() < 0.1
    assert plain.max() > 0.9
    found = randomised_tukey_hsd(scores, trials, seed=2)
    assert (np.abs(found - plain) <= 4 * math.sqrt(2) * standard_error(plain, trials)).all()


def test_for_two_systems_it_is_the_sign_flip_test() -> None:
    scores = graded(9, 2, step=0.5)
    flips = stats.permutation_test(
        (scores[:, 0] - scores[:, 1],), np.mean, permutation_type="samples", n_resamples=np.inf
    )
    [found] = randomised_tukey_hsd(scores, trials=40_000, seed=0)
    assert abs(found - flips.pvalue) <= 4 * standard_error(flips.pvalue, 40_000)


def test_without_a_difference_every_p_of_two_systems_is_as_likely() -> None:
    sizes = 2.0 ** np.arange(6)  # no two sums of signed sizes are alike
    found = np.sort(
        [
            randomised_tukey_hsd(np.column_stack((sizes * (1, *signs), np.zeros(6))), 10_000, 0)[0]
            for signs in product((1, -1), repeat=5)
        ]
    )
    exact = np.arange(1, 33) / 32
    assert (np.abs(found - exact) <= 4 * standard_error(exact, 10_000)).all()


def test_all_pairs_together_err_no_more_often_than_said() -> None:
    level, worlds = 0.2, 400
    smallest = [randomised_tukey_hsd(noise(20, 4, seed), 400, seed).min() for seed in range(worlds)]
    wrong = int((np.array(smallest) <= level).sum())
    assert stats.binomtest(wrong, worlds, level).pvalue > 0.001


@pytest.mark.parametrize("trials", [1, 2, 7, 100, 101])
def test_the_share_is_one_of_exactly_so_many_trials(trials: int) -> None:
    found = {randomised_tukey_hsd(table("3 × 3"), trials, seed)[1] for seed in range(40)}
    assert found <= {count / trials for count in range(trials + 1)}
    assert len(found) > 1


def test_a_level_of_each_user_changes_nothing_that_is_paired() -> None:
    scores = np.round(64 * graded(40, 3, step=0.1)) / 64  # exact in binary, as are the levels
    levels = np.round(1e10 * noise(40, 1, seed=1))
    for plain, shifted in zip(compare(named(scores)), compare(named(scores + levels)), strict=True):
        assert shifted.p_paired == plain.p_paired
        assert astuple(shifted.paired) == pytest.approx(astuple(plain.paired))
        assert shifted.p_unpaired > 0.99 > plain.p_unpaired
        assert abs(shifted.unpaired_g) < 0.1 * abs(plain.unpaired_g)


def test_the_order_of_the_systems_changes_nothing_but_signs() -> None:
    systems = named(graded(40, 4, step=0.1))
    there = compare(systems)
    back = {(c.second, c.first): c for c in compare(dict(reversed(systems.items())))}
    assert len(back) == 6
    for pair in there:
        other = back[pair.first, pair.second]
        assert other.p_paired == pair.p_paired
        assert other.p_unpaired == pytest.approx(pair.p_unpaired)
        assert other.difference == -pair.difference
        assert (other.first_mean, other.second_mean) == (pair.second_mean, pair.first_mean)
        assert (other.paired.low, other.paired.high) == (-pair.paired.high, -pair.paired.low)
        assert other.unpaired_g == -pair.unpaired_g


def test_the_order_of_the_users_changes_nothing_but_chance() -> None:
    scores = graded(50, 3, step=0.2)
    found, turned = (randomised_tukey_hsd(rows, 40_000, 0) for rows in (scores, scores[::-1]))
    assert (np.abs(found - turned) <= 4 * math.sqrt(2) * standard_error(found, 40_000)).all()


def test_a_seed_gives_the_same_result_again_and_another_seed_another() -> None:
    systems = named(noise(30, 3))
    assert compare(systems, seed=3) == compare(systems, seed=3)
    assert compare(systems, seed=3)[0].p_paired != compare(systems, seed=4)[0].p_paired


@pytest.mark.parametrize(("users", "systems"), [(2, 2), (6, 3), (40, 5), (60_000, 3)])
def test_the_classical_p_equals_scipy(users: int, systems: int) -> None:
    scores = graded(users, systems, step=1 / math.sqrt(users))
    oracle = stats.tukey_hsd(*scores.T).pvalue[np.triu_indices(systems, 1)]
    assert classical_tukey_hsd(scores) == pytest.approx(oracle, abs=1e-9)


def test_the_classical_p_of_two_systems_is_that_of_the_t_test() -> None:
    scores = graded(15, 2, step=0.6)
    oracle = stats.ttest_ind(*scores.T).pvalue
    assert classical_tukey_hsd(scores) == pytest.approx([oracle], abs=1e-6)


@pytest.mark.parametrize("users", [3, 20, 1000])
def test_both_effects_follow_from_the_t_statistics(users: int) -> None:
    first, second = (graded(users, 2, step=0.5) + noise(users, 1, seed=1)).T
    few = 1 - 3 / (4 * (users - 1) - 1)
    rel = stats.ttest_rel(first, second).statistic
    assert paired_effect(first - second).g == pytest.approx(few * rel / math.sqrt(users))
    few = 1 - 3 / (4 * (2 * users - 2) - 1)
    ind = stats.ttest_ind(first, second).statistic
    assert unpaired_g(first, second) == pytest.approx(few * ind * math.sqrt(2 / users))


@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("effect", [0.0, 0.1, 0.6])
def test_the_interval_of_many_users_is_that_of_the_noncentral_t(
    effect: float, confidence: float
) -> None:
    users = 1500
    differences = noise(users, 1)[:, 0] + effect
    t = stats.ttest_1samp(differences, 0).statistic

    def bound(share: float) -> float:
        where = optimize.brentq(
            lambda shift: stats.nct.cdf(t, users - 1, shift) - share, t - 6, t + 6
        )
        return float(where) / math.sqrt(users)

    found = paired_effect(differences, confidence)
    exact = bound((1 + confidence) / 2), bound((1 - confidence) / 2)
    assert (found.low, found.high) == pytest.approx(exact, abs=0.02 * (exact[1] - exact[0]))


@pytest.mark.parametrize("users", [20, 200])
@pytest.mark.parametrize("effect", [0.0, 0.5])
def test_the_interval_has_the_true_effect_as_often_as_said(effect: float, users: int) -> None:
    samples = noise(4000, users, seed=users) + effect
    found = [paired_effect(sample, confidence=0.9) for sample in samples]
    inside = np.mean([interval.low <= effect <= interval.high for interval in found])
    assert inside == pytest.approx(0.9, abs=0.02)


def test_pairing_sees_a_small_gain_that_users_drown() -> None:
    scores = 10 * noise(200, 1) + 0.1 * noise(200, 3, seed=2) + np.eye(3)[0] / 10
    by_name = {(c.first, c.second): c for c in compare(named(scores))}
    gain, nothing = by_name["system 0", "system 1"], by_name["system 1", "system 2"]
    assert gain.p_paired == 0
    assert gain.p_unpaired > 0.9
    assert gain.paired.low > 0.3
    assert nothing.p_paired > 0.05
    assert nothing.paired.low < 0 < nothing.paired.high
    assert gain.difference == pytest.approx(gain.first_mean - gain.second_mean)
    assert gain.first_mean == scores[:, 0].mean()


def test_identical_systems_do_not_differ() -> None:
    values = np.array([0.1, 0.7, 0.3])
    same, _, other = compare({"a": values, "b": values.copy(), "c": values[::-1] + 0.2})
    assert (same.difference, same.p_paired, same.p_unpaired) == (0, 1, 1)
    assert (same.paired.g, same.unpaired_g) == (0, 0)
    assert same.paired.low < 0 < same.paired.high
    assert np.isfinite(astuple(other.paired)).all()


def test_systems_without_any_spread_have_whole_answers() -> None:
    alike, _, apart = compare({"a": np.zeros(8), "b": np.zeros(8), "c": np.ones(8)})
    assert (alike.p_paired, alike.p_unpaired, alike.paired.g, alike.unpaired_g) == (1, 1, 0, 0)
    assert apart.p_unpaired == 0
    assert astuple(apart.paired) == (-math.inf,) * 3
    assert apart.unpaired_g == -math.inf


def test_two_users_are_enough() -> None:
    [pair] = compare({"a": np.array([0.5, 0.75]), "b": np.array([0.25, 0.5])})
    assert pair.difference == 0.25
    assert pair.p_paired == pytest.approx(0.5, abs=0.05)
    assert pair.paired.g == 0
    assert pair.unpaired_g == pytest.approx(0.25 / math.sqrt(1 / 32) * 4 / 7)


FINE = np.array([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("systems", "options", "sentence"),
    [
        ({}, {}, "at least two systems, not 0"),
        ({"a": FINE}, {}, "at least two systems, not 1"),
        ({"a": FINE[:1], "b": FINE[:1]}, {}, "at least two users, not 1"),
        ({"a": FINE, "b": FINE[:2]}, {}, "'b' has 2 users and 'a' has 3"),
        ({"a": FINE, "b": FINE.reshape(1, 3)}, {}, r"'b' must have one value per user.*\(1, 3\)"),
        (
            {"a": FINE, "b": np.array([0, np.nan, 1])},
            {},
            "'b' must be finite, but the value at position 1 is nan",
        ),
        (
            {"a": np.array([0, 1, np.inf]), "b": FINE},
            {},
            "'a' must be finite, but the value at position 2 is inf",
        ),
        ({"a": FINE, "b": FINE}, {"trials": 0}, "trials must be at least 1, not 0"),
        ({"a": FINE, "b": FINE}, {"seed": -1}, "seed must be 0 or more, not -1"),
        ({"a": FINE, "b": FINE}, {"confidence": 1}, "confidence must be between 0 and 1, not 1"),
        ({"a": FINE, "b": FINE}, {"confidence": math.nan}, "confidence must be between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(
    systems: dict[str, Floats], options: dict[str, int], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        compare(systems, **options)
