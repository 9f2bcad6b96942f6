"""Python, HTTP and the command line have the same names and defaults."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest

from densirank import Ranker
from densirank.cli.evaluate import USUAL_K, evaluate
from densirank.cli.options import UnknownOption
from densirank.cli.recommend import recommend
from densirank.cli.serve import serve
from densirank.ranking.lists import UNKNOWN
from densirank.serving.app import ServeConfig
from densirank.serving.schema import RecommendRequest

PYTHON = inspect.signature(Ranker.recommend).parameters
DRAWS = inspect.signature(Ranker.sample).parameters
MEASURES = inspect.signature(Ranker.evaluate).parameters
TYPED = inspect.signature(recommend).parameters


@pytest.mark.parametrize("name", ["k", "filter_seen", "approximate", "rank_by"])
def test_http_has_the_defaults_of_python(name: str) -> None:
    assert RecommendRequest.model_fields[name].default == PYTHON[name].default


def test_http_has_the_constraints_of_python() -> None:
    request = RecommendRequest.model_validate({"users": [1]})
    for name in ("items", "exclude"):
        assert not getattr(request, name)
        assert PYTHON[name].default is None
    assert request.temperature == DRAWS["temperature"].default


def test_unknown_people_get_the_same_everywhere() -> None:
    usual = PYTHON["unknown"].default
    assert (
        usual == TYPED["unknown"].default == inspect.signature(serve).parameters["unknown"].default
    )
    assert RecommendRequest.model_fields["unknown"].default is None  # what the service says
    assert inspect.signature(ServeConfig).parameters["unknown"].default == usual
    choices: Any = get_args(UnknownOption)[0]
    assert get_args(choices) == UNKNOWN
    for unknown in UNKNOWN:
        assert RecommendRequest.model_validate({"users": [1], "unknown": unknown})


@pytest.mark.parametrize("name", sorted(set(PYTHON) - {"self", "users"}))
def test_the_command_line_has_the_defaults_of_python(name: str) -> None:
    assert TYPED[name].default == PYTHON[name].default


def test_every_option_of_a_list_is_there_at_every_door() -> None:
    for name in set(PYTHON) - {"self", "users"}:
        assert name in TYPED
        assert name in RecommendRequest.model_fields


def test_an_evaluation_is_the_same_in_python_and_typed() -> None:
    typed = inspect.signature(evaluate).parameters
    assert typed["filter_seen"].default == MEASURES["filter_seen"].default
    assert MEASURES["k"].default == USUAL_K
