"""A walk over a grid: from the defaults to a better neighbour, until there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from densirank.dimensions import Choices, Setting, Space, Value
from densirank.tuning.trials import Trial, best_of

Propose = Callable[[Sequence[Trial]], Setting | None]
"""The settings to try after these trials, or None if there is nothing left to try.

It depends on the trials alone and keeps nothing to itself, so a search that goes on from its
records makes the proposals it would have made anyway.
"""


def grid_walk(space: Space, defaults: Mapping[str, Value]) -> Propose:
    """Climb over the grid of a space, one setting and one step at a time.

    The paper's grid has 270 points, of which a climb visits about twenty: the defaults first, then
    the neighbours of the best trial so far, on in the direction that has just led to it before any
    other. It ends where all neighbours are known to be no better.
    """
    grid = {key: dimension.grid() for key, dimension in space.items()}

    def propose(trials: Sequence[Trial]) -> Setting | None:
        start = {key: choices.closest(defaults[key]) for key, choices in grid.items()}
        best = best_of(trials)
        here = start if best is None else best.settings
        before = None if best is None else best_of(trials[: best.number - 1])
        there = start if before is None else before.settings
        tried = [trial.settings for trial in trials]
        untried = (s for s in (here, *_around(grid, here, there)) if s not in tried)
        return next(untried, None)

    return propose


def _around(grid: Mapping[str, Choices], here: Setting, there: Setting) -> Iterator[Setting]:
    """The neighbours of ``here``, those first that lead away from ``there``."""
    for key in sorted(grid, key=lambda key: here[key] == there[key]):
        for value in grid[key].neighbours(here[key]):
            yield here | {key: value}
