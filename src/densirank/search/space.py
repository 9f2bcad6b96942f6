"""The search space of a method: its declared default, or one given by the user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from densirank.dimensions import Choices, Dimension, Range, Space
from densirank.errors import InputError
from densirank.methods import Method
from densirank.settings import Settings

OF_OPTIMISER: Mapping[str, Space] = {
    "whitened": {"learning_rate": Range(0.02, 0.5, log=True, points=(0.05, 0.1, 0.2, 0.4))},
}
"""Learning rates for optimisers whose step sizes are not comparable with Adam's."""

CLIPPING: Space = {"max_norm": Range(1.0, 9.0, points=tuple(map(float, range(1, 10))))}
"""The paper's n̄, for methods that clip norms."""


def space_for(method: Method, fixed: Mapping[str, Any], ordered: bool = False) -> Space:
    """The default space of a method, without the settings that are fixed.

    >>> from densirank.methods import method_named
    >>> sorted(space_for(method_named("wd-lgcn"), {"l2": 0.02}))
    ['learning_rate', 'max_norm']
    """
    space = {**method.settings_type.space(), **method.searched}
    if ordered:
        space |= method.searched_timed
    if method.risk is not None:
        space |= OF_OPTIMISER.get(method.settings(**fixed).optimiser, {})
    if method.max_norm is not None:
        space |= CLIPPING
    return space_from(method, {key: space[key] for key in space if key not in fixed})


def space_from(method: Method, described: Mapping[str, Any]) -> Space:
    """A space from plain values: a list of choices, or a table with ``low`` and ``high``.

    >>> from densirank.methods import method_named
    >>> plain = {"max_norm": [3, "none"], "l2": {"low": 0.01, "high": 0.1}}
    >>> space = space_from(method_named("wd-mf"), plain)
    >>> space["max_norm"], space["l2"].grid().values
    (Choices(values=(3, None)), (0.01, 0.0325, 0.055, 0.0775, 0.1))
    """
    kind = method.settings_type
    kind.check_keys(described, method.name)
    space: dict[str, Dimension] = {}
    for key in kind.rules():  # independent of the order in a file
        if key not in described:
            continue
        try:
            space[key] = _dimension(kind, key, described[key])
        except InputError as error:
            raise InputError(f"the search space of {key}: {error}") from error
    return space


def _dimension(kind: type[Settings], key: str, described: Any) -> Dimension:
    if isinstance(described, Mapping):
        described = _range(described)
    if isinstance(described, Range):
        for number in (described.low, described.high, *described.points):
            kind.parse({key: number})
        return replace(described, whole=kind.rules()[key].is_whole)
    if isinstance(described, Choices):
        described = described.values
    if not isinstance(described, list | tuple):
        raise InputError(
            f"a list of choices or a table with low and high was expected, not {described!r}"
        )
    return Choices(tuple(kind.parse({key: value})[key] for value in described))


def _range(table: Mapping[str, Any]) -> Range:
    unknown = sorted(set(table) - {"low", "high", "log", "points"})
    if unknown:
        raise InputError(f"a range has low, high and perhaps log and points, not {unknown[0]!r}")
    if not {"low", "high"} <= set(table):
        raise InputError("a range has both low and high")
    log, points = table.get("log", False), table.get("points", ())
    if not isinstance(log, bool):
        raise InputError(f"log is true or false, not {log!r}")
    if not isinstance(points, list | tuple):
        raise InputError(f"points is a list of numbers, not {points!r}")
    return Range(table["low"], table["high"], log=log, points=tuple(points))
