from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank import METHODS
from densirank.dimensions import Setting
from densirank.search import Choices, Range, Trial
from densirank.search.propose import run_trials, walk
from densirank.search.space import space_for, space_from

SPACE = space_for(METHODS["wd-mf"], {})
DEFAULTS = METHODS["wd-mf"].settings().to_json()


def hill(rate: float, l2: float, max_norm: float) -> Any:
    """Highest at one setting and lower the farther from it, with the settings playing together."""

    def height(setting: Setting) -> float:
        a = math.log(float(setting["learning_rate"]) / rate)  # type: ignore[arg-type]
        b = math.log(float(setting["l2"]) / l2)  # type: ignore[arg-type]
        c = (float(setting["max_norm"]) - max_norm) / 4  # type: ignore[arg-type]
        return math.exp(-(a**2) - b**2 - c**2 - 0.5 * a * c)

    return height


@pytest.mark.parametrize("peak", [(0.02, 0.01, 7.0), (0.09, 0.1, 2.0), (0.05, 0.05, 4.0)])
def test_the_walk_finds_the_best_of_all_points_without_visiting_most(
    peak: tuple[float, float, float], judged: Any
) -> None:
    objective = hill(*peak)
    points = [
        dict(zip(SPACE, values, strict=True))
        for values in itertools.product(*(d.grid().values for d in SPACE.values()))
    ]
    visited = list(run_trials(walk(SPACE, DEFAULTS), judged(objective), [], None))
    best = max(visited, key=lambda trial: trial.ndcg)
    assert best.settings == max(points, key=objective)
    assert len(visited) < len(points) / 6
    assert all(trial.settings in points for trial in visited)
    assert len({tuple(trial.settings.values()) for trial in visited}) == len(visited)


def test_it_starts_at_the_point_closest_to_the_defaults() -> None:
    first = walk(SPACE, DEFAULTS)([])
    assert first == {"learning_rate": 0.05, "l2": 0.01, "max_norm": 2.0}


def test_it_goes_on_in_the_direction_that_led_up(judged: Any) -> None:
    described = {"l2": Range(0.1, 0.9), "max_norm": Range(1, 9, points=tuple(range(1, 10)))}
    space = space_from(METHODS["wd-mf"], described)
    propose = walk(space, {"l2": 0.5, "max_norm": 1})
    visited = list(run_trials(propose, judged(lambda setting: setting["max_norm"]), [], 8))
    assert [trial.settings["max_norm"] for trial in visited] == [1, 1, 1, 2, 3, 4, 5, 6]


def test_a_trial_that_did_not_end_is_no_place_to_go_on_from() -> None:
    space = space_from(METHODS["wd-mf"], {"max_norm": [1, 2, 3, 4]})
    propose = walk(space, {"max_norm": 2})
    trials = [
        Trial(1, {"max_norm": 2}, "finished", 0.5, None, None, 0.0),
        Trial(2, {"max_norm": 1}, "pruned", 0.6, None, None, 0.0),
        Trial(3, {"max_norm": 3}, "diverged", 0.0, None, None, 0.0),
    ]
    assert propose(trials[:1]) == {"max_norm": 1}
    assert propose(trials[:2]) == {"max_norm": 3}
    assert propose(trials) is None


def test_names_are_all_tried(judged: Any) -> None:
    described = {"candidates": ["batch", "all", 100], "optimiser": ["adam", "whitened"]}
    space = space_from(METHODS["wd-mf"], described)
    propose = walk(space, {"candidates": "batch", "optimiser": "adam"})
    visited = list(run_trials(propose, judged(lambda s: float(s["candidates"] == 100)), [], None))
    assert {trial.settings["candidates"] for trial in visited} == {"batch", "all", 100}
    assert {trial.settings["optimiser"] for trial in visited} == {"adam", "whitened"}


heights = st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True)


def climbed(heights: list[int], start: int, at_most: int | None = None) -> list[Trial]:
    """The trials of a walk over one setting, whose value is its place in the list."""
    propose = walk({"rung": Choices(tuple(range(len(heights))))}, {"rung": start})

    def evaluate(number: int, setting: Any, earlier: Any) -> Trial:
        return Trial(number, setting, "finished", heights[setting["rung"]])

    return list(run_trials(propose, evaluate, at_most=at_most))


@given(heights=heights, start=st.integers(0, 11))
def test_where_there_is_one_peak_it_is_found(heights: list[int], start: int) -> None:
    ordered = sorted(heights)
    peaked = ordered[::2] + ordered[1::2][::-1]  # up, then down
    best = max(climbed(peaked, start), key=lambda trial: trial.ndcg)
    assert best.ndcg == max(peaked)


@given(heights=heights, start=st.integers(0, 11), looks=st.integers(0, 5))
def test_it_ends_no_lower_than_it_starts_and_values_only_the_start_without_time(
    heights: list[int], start: int, looks: int
) -> None:
    trials = climbed(heights, start, 1 + looks)
    assert 1 <= len(trials) <= 1 + looks
    assert trials[0].settings == {"rung": min(start, len(heights) - 1)}
    assert max(trial.ndcg for trial in trials) >= trials[0].ndcg


def test_settings_that_are_not_walked_over_are_ignored() -> None:
    propose = walk({"max_norm": Choices((1, 2, 3))}, {"max_norm": 2})
    trials = [Trial(1, {"max_norm": 2, "filter_weight": 0.3}, "finished", 0.5)]
    assert propose(trials) == {"max_norm": 1}


def test_larger_values_come_first_where_that_is_asked_for() -> None:
    space = {"filter_weight": Choices((0.1, 0.2, 0.3))}
    start = [Trial(1, {"filter_weight": 0.2}, "finished", 0.5)]
    assert walk(space, {"filter_weight": 0.2}, upward=True)(start) == {"filter_weight": 0.3}
    assert walk(space, {"filter_weight": 0.2})(start) == {"filter_weight": 0.1}
