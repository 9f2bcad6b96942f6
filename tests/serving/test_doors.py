"""Python, HTTP and the command line have the same names and defaults."""

from __future__ import annotations

import inspect

import pytest

from densirank import Ranker
from densirank.cli.recommend import recommend
from densirank.serving.schema import RecommendRequest

PYTHON = inspect.signature(Ranker.recommend).parameters
DRAWS = inspect.signature(Ranker.sample).parameters


@pytest.mark.parametrize("name", ["k", "filter_seen", "unknown", "approximate"])
def test_http_has_the_defaults_of_python(name: str) -> None:
    assert RecommendRequest.model_fields[name].default == PYTHON[name].default


def test_http_has_the_constraints_of_python() -> None:
    request = RecommendRequest.model_validate({"users": [1]})
    for name in ("items", "exclude"):
        assert not getattr(request, name)
        assert PYTHON[name].default is None
    assert request.temperature == DRAWS["temperature"].default


@pytest.mark.parametrize("name", ["k", "unknown", "approximate"])
def test_the_command_line_has_the_defaults_of_python(name: str) -> None:
    assert inspect.signature(recommend).parameters[name].default == PYTHON[name].default
