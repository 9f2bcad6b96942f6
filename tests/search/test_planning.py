from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank import METHODS, Interactions
from densirank.errors import InputError
from densirank.search.planning import (
    ENOUGH,
    HASTY,
    LADDER,
    MODEST_DIM,
    PLENTY,
    TRIALS,
    Clock,
    Cost,
    Plan,
    Size,
    gini,
    largest_dim,
    plan_for,
    seconds_of,
    sizes_for,
    space_around,
    start_for,
)

METHOD = METHODS["densirank"]


def _plan(data: Interactions, seconds_a_product: float, left: float) -> tuple[Plan, list[Size]]:
    """A plan where every product takes so long, and which sizes were measured for it."""
    measured: list[Size] = []

    def cost_of(size: Size) -> Cost:
        measured.append(size)
        return Cost(0.01, seconds_a_product * size.work(data))

    return plan_for(data, sizes_for(data, 256), cost_of, lambda: left), measured


@given(speed=st.floats(-12, -2), left=st.floats(1, 1000))
def test_a_plan_leaves_time_for_the_last_fit(log: Interactions, speed: float, left: float) -> None:
    plan, measured = _plan(log, 10.0**speed, left)
    assert 1 <= plan.iterations <= PLENTY
    if plan.iterations > 1:
        assert 2 * plan.cost.of(plan.iterations) <= left * (1 + 1e-9)
    if plan.size.dim > MODEST_DIM:
        assert plan.iterations >= ENOUGH
        assert (TRIALS + 1) * plan.cost.of(plan.iterations) <= left * (1 + 1e-9)
    assert measured[-1] == plan.size  # what promises too little is not measured


def test_more_time_and_a_faster_machine_never_give_a_smaller_model(log: Interactions) -> None:
    products = [LADDER.index(_plan(log, 10.0**-p, 60)[0].size) for p in range(3, 13)]
    assert products == sorted(products)
    assert (products[0], products[-1]) == (0, len(LADDER) - 1)
    times = [LADDER.index(_plan(log, 1e-8, 4.0**p)[0].size) for p in range(8)]
    assert times == sorted(times)


def test_few_steps_are_longer_ones() -> None:
    size = LADDER[0]
    assert "learning_rate" not in Plan(size, Cost(0, 1), HASTY).settings
    assert Plan(size, Cost(0, 1), HASTY - 1).settings["learning_rate"] == pytest.approx(0.3)


def test_small_data_have_few_dimensions_at_every_size(log: Interactions) -> None:
    sizes = sizes_for(log, 16)
    assert {size.dim for size in sizes} == {16}
    assert len(set(sizes)) == len(sizes)


def _flat(n: int) -> Interactions:
    """Everybody has two items, every item two users."""
    users = np.repeat(np.arange(n), 2)
    return Interactions.from_pairs(users, (users + np.tile([0, 1], n)) % n)


def test_gini_is_that_of_its_definition() -> None:
    counts = np.random.default_rng(0).integers(0, 50, size=40)
    differences = np.abs(counts[:, None] - counts[None, :]).mean()
    assert gini(counts) == pytest.approx(differences / (2 * counts.mean()))


def test_recency_is_searched_where_an_order_is_known_and_nowhere_else(log: Interactions) -> None:
    unordered = replace(log, ordered=False, timestamps=None)
    start = start_for(unordered, METHOD)
    assert (start["recency"], start["filter_recency"], start["filter_span"]) == (0, 0, 0)
    assert "recency" not in space_around(unordered, start)
    assert start_for(log, METHOD)["recency"] > 0
    assert "recency" in space_around(log, start)


def test_dimensions_grow_with_the_data_and_never_beyond_what_was_planned() -> None:
    dims = [largest_dim(_flat(n)) for n in (3, 40, 400, 4000, 40_000)]
    assert dims == [8, 8, 64, 256, 256]
    planned = start_for(_flat(400), METHOD) | {"dim": 32}
    assert max(space_around(_flat(400), planned)["dim"].grid().values) == 32  # type: ignore[type-var]


def test_norms_are_bounded_with_the_logarithm_of_the_catalogue() -> None:
    bounds = [start_for(_flat(n), METHOD)["max_norm"] for n in (10, 1000, 40_000, 100_000)]
    assert bounds == sorted(bounds)
    assert bounds[2] == bounds[3] == METHOD.max_norm


def test_unequal_popularity_goes_into_the_base_density() -> None:
    users = np.arange(100)
    favourite = Interactions.from_pairs(
        np.tile(users, 3), np.concatenate([0 * users, 0 * users + 1, users + 2])
    )
    flat = start_for(_flat(100), METHOD)["base_exponent"]
    assert start_for(favourite, METHOD)["base_exponent"] > flat


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("60s", 60), ("2m", 120), ("1.5h", 5400), ("45", 45), (".5", 0.5), (" 3 MIN ", 180), (7, 7)],
)
def test_a_budget_is_said_in_seconds_minutes_or_hours(said: str | float, seconds: float) -> None:
    assert seconds_of(said) == seconds


@pytest.mark.parametrize(
    "said", ["", "s", "soon", "-5", "0", "0s", "1d", "60 s s", "1e3", "nan", "inf", "1,5h", -1, 0]
)
def test_what_is_no_time_is_refused_by_its_words(said: str | float) -> None:
    with pytest.raises(InputError, match="a budget is a time above 0") as refusal:
        seconds_of(said)
    assert repr(str(said)) in str(refusal.value)


def test_what_is_left_of_a_budget_falls_below_zero() -> None:
    clock = Clock(1e-9)
    before, left, after = clock.elapsed, clock.left, clock.elapsed
    assert left < 0
    assert before <= clock.budget - left <= after
