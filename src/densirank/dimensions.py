"""What is searched about one setting: some values, or everything between two bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from densirank.errors import InputError

Value = int | float | str | None
Setting = dict[str, Value]
"""One point of a space: a value for each setting that is searched."""

POINTS = 5
"""How many points of a range a grid has where they are not given."""


@dataclass(frozen=True)
class Choices:
    """A setting that takes one of these values.

    >>> Choices((32, 64, 128)).closest(100)
    128
    >>> list(Choices((32, 64, 128)).neighbours(64)), list(Choices(("a", "b", "c")).neighbours("a"))
    ([32, 128], ['b', 'c'])
    """

    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) < len(self.values):
            raise InputError(f"choices must be one or more different values, not {self.to_json()}")
        numbers = [value for value in self.values if is_number(value)]
        if len(numbers) == len(self.values):
            object.__setattr__(self, "values", tuple(sorted(numbers)))

    def closest(self, value: Value) -> Value:
        """The choice that is most like this value; the first one where none is alike."""
        if value in self.values:
            return value
        numbers = [choice for choice in self.values if is_number(choice)]
        if not is_number(value) or not numbers:
            return self.values[0]
        return min(numbers, key=lambda number: abs(number - value))

    def neighbours(self, value: Value) -> Iterator[Value]:
        """The choices one step away: below and above among numbers, all others among names."""
        place = self.values.index(value)
        ordered = all(is_number(choice) for choice in self.values)
        for other, choice in enumerate(self.values):
            if other != place and (abs(other - place) == 1 or not ordered):
                yield choice

    def grid(self) -> Choices:
        return self

    def to_json(self) -> list[Value]:
        return list(self.values)


@dataclass(frozen=True)
class Range:
    """A setting that takes any value from ``low`` to ``high``; a grid visits some ``points`` of it.

    ``log`` says that ratios count, not differences; ``whole`` that only whole numbers will do.

    >>> Range(0.01, 1.0, log=True).grid().values
    (0.01, 0.0316, 0.1, 0.316, 1.0)
    >>> Range(1, 9, whole=True).closest(4.7)
    5
    """

    low: float
    high: float
    log: bool = False
    whole: bool = False
    points: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, *self.points)
        if not all(is_number(number) and math.isfinite(number) for number in numbers):
            raise InputError(f"a range is made of numbers, not {list(numbers)}")
        if not self.low < self.high:
            raise InputError(f"a range goes from low to high, not from {self.low} to {self.high}")
        if self.log and self.low <= 0:
            raise InputError(f"a range with log = true starts above 0, not at {self.low}")
        if not all(self.low <= point <= self.high for point in self.points):
            raise InputError(
                f"the points {list(self.points)} are not all between {self.low} and {self.high}"
            )

    def closest(self, value: Value) -> Value:
        """The value in the range that is most like this one, to three significant digits."""
        if not is_number(value):
            return self.low
        rounded = round(value) if self.whole else float(f"{value:.3g}")
        return min(max(rounded, self.low), self.high)

    def grid(self) -> Choices:
        """The points of the range that a grid visits."""
        if self.points:
            return Choices(self.points)
        shares = (step / (POINTS - 1) for step in range(POINTS))
        points = (self.closest(self._at(share)) for share in shares)
        return Choices(tuple(dict.fromkeys(points)))

    def _at(self, share: float) -> float:
        """The value at a share of the way from low to high."""
        if self.log:
            return float(self.low * (self.high / self.low) ** share)
        return self.low + share * (self.high - self.low)

    def to_json(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high, "log": self.log, "points": list(self.points)}


Dimension = Choices | Range
Space = Mapping[str, Dimension]
"""What is searched, by the name of the setting."""


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether it is an int or a float, and not one of Python's two numbers in disguise."""
    return isinstance(value, int | float) and not isinstance(value, bool)
