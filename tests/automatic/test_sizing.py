from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank import Interactions
from densirank.automatic.sizing import (
    ENOUGH,
    HASTY,
    LADDER,
    MODEST_DIM,
    PLENTY,
    TRIALS,
    Cost,
    Plan,
    Size,
    plan_for,
    sizes_for,
)


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
        assert 2 * plan.seconds <= left * (1 + 1e-9)
    if plan.size.dim > MODEST_DIM:
        assert plan.iterations >= ENOUGH
        assert (TRIALS + 1) * plan.seconds <= left * (1 + 1e-9)
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
