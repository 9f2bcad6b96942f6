from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from densirank import METHODS
from densirank.dimensions import Setting
from densirank.tuning import Range, Trial
from densirank.tuning.grid import grid_walk
from densirank.tuning.search import search
from densirank.tuning.spaces import space_for, space_from

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
    visited = list(search(grid_walk(SPACE, DEFAULTS), judged(objective), [], None))
    best = max(visited, key=lambda trial: trial.ndcg)
    assert best.settings == max(points, key=objective)
    assert len(visited) < len(points) / 6
    assert all(trial.settings in points for trial in visited)
    assert len({tuple(trial.settings.values()) for trial in visited}) == len(visited)


def test_it_starts_at_the_point_closest_to_the_defaults() -> None:
    first = grid_walk(SPACE, DEFAULTS)([])
    assert first == {"learning_rate": 0.05, "l2": 0.01, "max_norm": 2.0}


def test_it_goes_on_in_the_direction_that_led_up(judged: Any) -> None:
    described = {"l2": Range(0.1, 0.9), "max_norm": Range(1, 9, points=tuple(range(1, 10)))}
    space = space_from(METHODS["wd-mf"], described)
    walk = grid_walk(space, {"l2": 0.5, "max_norm": 1})
    visited = list(search(walk, judged(lambda setting: setting["max_norm"]), [], 8))
    assert [trial.settings["max_norm"] for trial in visited] == [1, 1, 1, 2, 3, 4, 5, 6]


def test_a_trial_that_did_not_end_is_no_place_to_go_on_from() -> None:
    space = space_from(METHODS["wd-mf"], {"max_norm": [1, 2, 3, 4]})
    walk = grid_walk(space, {"max_norm": 2})
    trials = [
        Trial(1, {"max_norm": 2}, "finished", 0.5, None, None, 0.0),
        Trial(2, {"max_norm": 1}, "pruned", 0.6, None, None, 0.0),
        Trial(3, {"max_norm": 3}, "diverged", 0.0, None, None, 0.0),
    ]
    assert walk(trials[:1]) == {"max_norm": 1}
    assert walk(trials[:2]) == {"max_norm": 3}
    assert walk(trials) is None


def test_names_are_all_tried(judged: Any) -> None:
    described = {"candidates": ["batch", "all", 100], "optimiser": ["adam", "whitened"]}
    space = space_from(METHODS["wd-mf"], described)
    walk = grid_walk(space, {"candidates": "batch", "optimiser": "adam"})
    visited = list(search(walk, judged(lambda s: float(s["candidates"] == 100)), [], None))
    assert {trial.settings["candidates"] for trial in visited} == {"batch", "all", 100}
    assert {trial.settings["optimiser"] for trial in visited} == {"adam", "whitened"}
