"""A plan adds up, grows with the data, and is no smaller than what has to be stored."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

import pytest

from cluster_plan import FULL, NODE, Scenario, fewest, h200, plan, scenarios, seconds
from step_costs import GPU, HALF, Case, Kernels, Layout

DATA = Case(10**8, 10**7, 10**10, 1, 1)
WAYS = scenarios(
    Namespace(items=10**7, layers=3, candidates=10**5, sampled_users=8192, exact_users=1024)
)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_the_fewest_gpus_hold_it_and_one_node_fewer_does_not(way: Scenario) -> None:
    least = fewest(way, DATA)
    assert least is not None
    assert least.held_bytes <= FULL * h200(way.kernels).memory
    if least.layout.ranks > NODE:
        assert not plan(way, DATA, least.layout.ranks - NODE).fits
    stored = 8 * DATA.interactions + 4 * DATA.dim * (DATA.users + DATA.items)
    assert least.layout.ranks * least.held_bytes > stored


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_ten_times_the_data_takes_more_gpus_or_none_are_enough(way: Scenario) -> None:
    least = fewest(way, DATA)
    larger = fewest(way, replace(DATA, users=10**9, interactions=10**11))
    assert least is not None
    assert larger is None or larger.layout.ranks > least.layout.ranks


def test_twice_the_gpus_take_half_the_steps_of_an_epoch() -> None:
    few, many = (plan(WAYS[0], DATA, ranks) for ranks in (64, 128))
    assert few.steps == pytest.approx(2 * many.steps)
    assert few.epoch_seconds == pytest.approx(few.steps * sum(few.seconds.values()) + few.shuffling)


@pytest.mark.parametrize(("kernels", "least", "most"), [(GPU, 1e12, 67e12), (HALF, 67e12, 720e12)])
def test_the_measured_rates_are_below_what_the_hardware_can(
    kernels: Kernels, least: float, most: float
) -> None:
    machine = h200(kernels)
    assert least < machine.risk < most
    assert 1e12 < machine.tables < 4.8e12
    assert 1e-9 < machine.draw < 1e-6


def test_a_node_sends_by_its_own_links_and_two_by_the_network() -> None:
    machine, case = h200(GPU), replace(DATA, batch_users=10**5, candidates=10**5, layers=3)
    within, across = (seconds(case, Layout(n), machine)["sending"] for n in (NODE, 2 * NODE))
    assert across > 5 * within
