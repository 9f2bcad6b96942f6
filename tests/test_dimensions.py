from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.dimensions import Choices, Range
from densirank.errors import InputError

numbers = st.floats(1e-6, 1e6)


@given(low=numbers, high=numbers, value=st.floats(-1e9, 1e9), log=st.booleans())
def test_the_closest_value_lies_in_the_range_and_near_what_was_asked_for(
    low: float, high: float, value: float, log: bool
) -> None:
    if not low < high:
        return
    dimension = Range(low, high, log=log)
    closest = dimension.closest(value)
    assert isinstance(closest, float)
    assert low <= closest <= high
    assert dimension.closest(closest) == pytest.approx(closest, rel=5e-3)
    if low <= value <= high:
        assert closest == pytest.approx(value, rel=5e-3)


@given(low=st.integers(1, 50), width=st.integers(1, 1000), log=st.booleans())
def test_whole_numbers_stay_whole_and_each_is_visited_once(low: int, width: int, log: bool) -> None:
    points = Range(low, low + width, log=log, whole=True).grid().values
    assert all(isinstance(point, int) for point in points)
    assert points[0] == low
    assert points[-1] == low + width
    assert len(set(points)) == len(points) == min(5, width + 1)


def test_a_range_of_ratios_has_a_grid_of_equal_ratios() -> None:
    points = Range(1e-4, 1.0, log=True).grid().values
    steps = [b / a for a, b in itertools.pairwise(points)]  # type: ignore[operator]
    assert steps == pytest.approx([10.0] * 4)


def test_numbers_have_neighbours_below_and_above_and_names_have_all_others() -> None:
    numbers = Choices((9, 1, 4))
    assert list(numbers.neighbours(4)) == [1, 9]
    assert list(numbers.neighbours(1)) == [4]
    assert list(Choices((1, None, 3)).neighbours(1)) == [None, 3]


def test_a_default_that_is_no_choice_becomes_the_closest_one() -> None:
    assert Choices((1.0, 4.0, 9.0)).closest(6) == 4.0
    assert Choices((1.0, None)).closest(None) is None
    assert Choices((3.0, 5.0)).closest(None) == 3.0
    assert Choices(("batch", "all")).closest(20) == "batch"


@pytest.mark.parametrize(
    ("low", "high", "log", "points", "sentence"),
    [
        (2, 1, False, (), "from low to high"),
        (1, 1, False, (), "from low to high"),
        (0, 1, True, (), "starts above 0"),
        (0, math.inf, False, (), "made of numbers"),
        ("0", 1, False, (), "made of numbers"),
        (True, 2, False, (), "made of numbers"),
        (0, 1, False, (2,), "not all between"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(
    low: float, high: float, log: bool, points: tuple[float, ...], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        Range(low, high, log=log, points=points)


@pytest.mark.parametrize("values", [(), (1, 1), (2, 2.0)])
def test_choices_are_some_and_different(values: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="different values"):
        Choices(values)
