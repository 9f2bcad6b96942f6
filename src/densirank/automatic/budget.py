"""How long a fit may take: said in seconds, minutes or hours, and watched on a clock."""

from __future__ import annotations

import math
import re
import time

from densirank.errors import InputError

UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def seconds_of(budget: str | float) -> float:
    """A budget in seconds, from a number or from text such as ``90``, ``60s``, ``2m``, ``1.5h``.

    >>> seconds_of("1.5h"), seconds_of("2m"), seconds_of(30)
    (5400.0, 120.0, 30.0)
    """
    said = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([a-z]*)\s*", str(budget).lower())
    seconds = math.nan
    if said is not None and said[2] in UNITS:
        seconds = float(said[1]) * UNITS[said[2]]
    if not (math.isfinite(seconds) and seconds > 0):
        raise InputError(
            f"a budget is a time above 0, such as 60s, 2m, 1.5h or a number of seconds, "
            f"not {str(budget)!r}"
        )
    return seconds


class Clock:
    """Runs from when it is made; a budget is what it should not pass."""

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._started = time.perf_counter()

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds of the budget that are not spent; below 0 where it is overdrawn."""
        return self.budget - self.elapsed
