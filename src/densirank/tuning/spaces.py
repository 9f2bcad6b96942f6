"""Which settings are searched for which method, and where: tables to be read and added to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from densirank.errors import InputError
from densirank.methods import Method
from densirank.risks.pairwise import SAMPLERS
from densirank.settings import (
    FILTER_KINDS,
    FLOATS,
    KEYS,
    SettingOverrides,
    check_keys,
    parse_settings,
)
from densirank.tuning.dimensions import Choices, Dimension, Range, Space, Value

TRAINED: Space = {
    "learning_rate": Range(1e-4, 0.1, log=True, points=(1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1)),
    "l2": Range(1e-6, 0.1, log=True, points=(1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1)),
}
"""What every method with a risk searches, unless a word below knows better."""

CLOSED_FORM: Space = {
    "l2": Range(1e-3, 1e3, log=True, points=(1e-3, 0.01, 0.1, 1, 10, 100, 1000)),
    "dim": Choices((32, 64, 128, 256)),
}
"""What a method without a risk searches, unless its model is among the words below."""

_DENSITY: Space = {  # the points are the grid of Togashi et al. 2021, Section 4.1
    "learning_rate": Range(
        0.01, 0.1, log=True, points=tuple(tenth / 100 for tenth in range(1, 11))
    ),
    "l2": Range(1e-3, 0.5, log=True, points=(0.01, 0.05, 0.1)),
}
_PAIRWISE: Space = {
    "l2": Range(1e-4, 1.0, log=True, points=(1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3)),
    "negatives": Choices((5, 20, 100)),
}
_GENERAL: Space = {
    "base_exponent": Range(0.0, 0.5, points=(0.0, 0.25, 0.5)),
    "user_exponent": Range(0.0, 1.25, points=(0.0, 0.5, 0.75, 1.0)),
    "filter_weight": Range(0.02, 2.0, log=True, points=(0.05, 0.1, 0.2, 0.4)),
}
_BLIND: Space = {
    **_GENERAL,
    "filter_kind": Choices(FILTER_KINDS),
    "low_pass_weight": Range(0.0, 0.2, points=(0.0, 0.05, 0.1)),
}
_TIMED: Space = {
    "recency": Range(0.0, 5.0, points=(0.0, 1.0, 2.0, 3.0)),
    "filter_recency": Range(0.0, 20.0, points=(0.0, 2.0, 5.0, 10.0)),
    "filter_span": Choices((0, 4, 8, 16)),
}
_DROPOUT: Space = {"dropout": Range(0.0, 0.7)}

OF_WORD: Mapping[str, Space] = {
    "wd": _DENSITY,
    "pde": _DENSITY,
    "mle": _DENSITY,
    **{f"pairwise-{sampler}": _PAIRWISE for sampler in SAMPLERS},
    "densirank": _GENERAL,
    "densirank-blind": _BLIND,
    "densirank-blind-pde": _BLIND,
    "dregn-cf": {**_DENSITY, "ratio_bound": Range(10.0, 200.0, log=True)},
    "enmf": {**_DROPOUT, "unobserved_weight": Range(1e-3, 0.5, log=True)},
    "ngcf": _DROPOUT,
    "mult-vae": {**_DROPOUT, "l2": Range(0.1, 5.0, log=True)},
    "popularity": {},
    "itemknn": {
        "l2": Range(1.0, 500.0, log=True),
        "neighbours": Range(10, 1000, log=True),
    },
    "ease": {"l2": Range(10.0, 5000.0, log=True)},
    "als": {
        "confidence": Range(1.0, 200.0, log=True),
        "l2": Range(1e-3, 500.0, log=True),
        "dim": Choices((32, 64, 128, 256)),
    },
}
"""What is searched because of a word: the name of a risk, of a model or of a method."""

OF_ORDER: Mapping[str, Space] = {"densirank": _TIMED}
"""What a method searches as well where an order of time is known."""

OF_OPTIMISER: Mapping[str, Space] = {
    "whitened": {"learning_rate": Range(0.02, 0.5, log=True, points=(0.05, 0.1, 0.2, 0.4))},
}
"""Where the learning rate lies for an optimiser that is no relative of Adam."""

CLIPPING: Space = {"max_norm": Range(1.0, 9.0, points=tuple(map(float, range(1, 10))))}
"""The paper's n̄, for methods that clip norms."""


def space_for(method: Method, fixed: SettingOverrides, ordered: bool = False) -> Space:
    """What is searched for a method by default, less what has been fixed.

    >>> from densirank.methods import method_named
    >>> sorted(space_for(method_named("wd-lgcn"), {"l2": 0.02}))
    ['learning_rate', 'max_norm']
    """
    words = [word for word in (method.risk, method.model, method.name) if word in OF_WORD]
    space: dict[str, Dimension] = {}
    if method.risk is not None:
        space |= TRAINED
    elif not words:
        space |= CLOSED_FORM
    for word in words:
        space |= OF_WORD[str(word)]
    if ordered:
        space |= OF_ORDER.get(method.name, {})
    if method.risk is not None:
        space |= OF_OPTIMISER.get(method.settings(**fixed).optimiser, {})
    if method.max_norm is not None:
        space |= CLIPPING
    return space_from({key: space[key] for key in space if key not in fixed})


def space_from(described: Mapping[str, Any]) -> Space:
    """A space from plain values: a list of choices, or a table with ``low`` and ``high``.

    >>> space = space_from({"max_norm": [3, "none"], "l2": {"low": 0.01, "high": 0.1}})
    >>> space["max_norm"], space["l2"].grid().values
    (Choices(values=(3, None)), (0.01, 0.0325, 0.055, 0.0775, 0.1))
    """
    check_keys(described)
    space: dict[str, Dimension] = {}
    for key in sorted(described, key=KEYS.index):  # the order in a file changes nothing
        try:
            space[key] = _dimension(key, described[key])
        except InputError as error:
            raise InputError(f"the search space of {key}: {error}") from error
    return space


def _dimension(key: str, described: Any) -> Dimension:
    if isinstance(described, Mapping):
        described = _range(described)
    if isinstance(described, Range):
        for number in (described.low, described.high, *described.points):
            parse_settings({key: number})
        return replace(described, whole=key not in FLOATS)
    if isinstance(described, Choices):
        described = described.values
    if not isinstance(described, list | tuple):
        raise InputError(
            f"a list of choices or a table with low and high was expected, not {described!r}"
        )
    return Choices(tuple(_setting(key, value) for value in described))


def _setting(key: str, value: Any) -> Value:
    (parsed,) = parse_settings({key: value}).values()
    return cast(Value, parsed)


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
