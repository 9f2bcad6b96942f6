from __future__ import annotations

import math
from typing import Any

import pytest

from densirank import METHODS
from densirank.errors import InputError
from densirank.methods import Method
from densirank.search import Choices, Range
from densirank.search.space import space_for, space_from


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_every_method_has_a_space_that_its_settings_accept(method: Method) -> None:
    space = space_for(method, {})
    assert bool(space) != (method.name == "popularity")
    for key, dimension in space.items():
        for value in dimension.grid().values:
            assert getattr(method.settings(**{key: value}), key) == value
    assert ("max_norm" in space) == (method.max_norm is not None)
    assert ("learning_rate" in space) == (method.risk is not None)


@pytest.mark.parametrize("name", ["wd-mf", "pde-mf", "mle-mf"])
def test_the_grid_of_density_methods_trained_by_adam_is_the_papers(name: str) -> None:
    space = space_for(METHODS[name], {})
    assert {key: list(dimension.grid().values) for key, dimension in space.items()} == {
        "learning_rate": pytest.approx([0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1]),
        "l2": [0.01, 0.05, 0.1],
        "max_norm": [1, 2, 3, 4, 5, 6, 7, 8, 9],
    }
    assert math.prod(len(dimension.grid().values) for dimension in space.values()) == 270


def test_the_optimiser_decides_where_the_learning_rate_lies() -> None:
    method = METHODS["wd-lgcn"]
    whitened = space_for(method, {})["learning_rate"]
    adam = space_for(method, {"optimiser": "adam"})["learning_rate"]
    assert whitened.closest(0.2) == 0.2
    assert adam.closest(0.2) == 0.1


def test_what_is_fixed_is_not_searched() -> None:
    assert set(space_for(METHODS["wd-lgcn"], {"l2": 0.1, "max_norm": None})) == {"learning_rate"}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("name", ["densirank", "densirank-blind", "densirank-blind-pde"])
def test_the_librarys_own_methods_search_what_they_are_made_of(name: str, ordered: bool) -> None:
    """What needs an order is searched where there is one, and every search starts at defaults."""
    space = space_for(METHODS[name], {}, ordered)
    settings = METHODS[name].settings_for(ordered)
    assert {"base_exponent", "user_exponent", "filter_weight"} <= set(space)
    for key in ("recency", "filter_recency", "filter_span"):
        assert (key in space) == (getattr(settings, key) > 0)
    assert ("low_pass_weight" in space) == (settings.low_pass_weight > 0)
    for key, dimension in space.items():
        assert dimension.closest(getattr(settings, key)) == getattr(settings, key)


@pytest.mark.parametrize("name", METHODS)
def test_a_risk_brings_its_own_settings(name: str) -> None:
    pairwise = (METHODS[name].risk or "").startswith("pairwise")
    assert ("negatives" in space_for(METHODS[name], {})) == pairwise


def test_a_space_may_be_plain_values_or_objects_and_their_order_is_of_no_account() -> None:
    plain = {"max_norm": [4, 3, "none"], "dim": {"low": 8, "high": 64, "log": True}}
    space = space_from(METHODS["wd-mf"], plain)
    assert list(space) == ["max_norm", "dim"]
    objects = {"dim": Range(8, 64, log=True), "max_norm": Choices((4, 3, None))}
    assert space == space_from(METHODS["wd-mf"], objects)
    assert space["dim"].closest(20.4) == 20
    assert isinstance(space["dim"].closest(20.4), int)


@pytest.mark.parametrize(
    ("described", "sentence"),
    [
        ({"depth": [1]}, "unknown setting 'depth'"),
        ({"dim": ["many"]}, "space of dim: dim cannot be 'many'"),
        ({"dim": [8, 0]}, "space of dim: dim must be a whole number"),
        ({"dim": []}, "space of dim: choices must be"),
        ({"dim": 8}, "space of dim: a list of choices or a table"),
        ({"dim": {"low": 1.5, "high": 3}}, "space of dim: dim must be a whole number"),
        ({"l2": {"low": -1, "high": 3}}, "space of l2: l2 must be a number"),
        ({"l2": {"low": 1}}, "space of l2: a range has both low and high"),
        ({"l2": {"low": 1, "high": 2, "step": 1}}, "not 'step'"),
        ({"l2": {"low": 1, "high": 2, "log": "yes"}}, "log is true or false"),
        ({"l2": {"low": 1, "high": 2, "points": 1}}, "points is a list"),
        ({"optimiser": {"low": 0, "high": 1}}, "space of optimiser: optimiser must be"),
    ],
)
def test_a_space_that_cannot_be_searched_is_refused(
    described: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        space_from(METHODS["wd-mf"], described)
