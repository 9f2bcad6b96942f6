"""The best rung of a ladder, found without visiting all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def climb(
    ladder: Sequence[float],
    start: float,
    value: Callable[[float], float],
    go_on: Callable[[], bool] = lambda: True,
) -> tuple[float, float]:
    """(rung, its value): from the rung nearest to the start on while it leads up.

    Where there is one peak, it is found. The start is valued in any case, others while ``go_on``.

    >>> climb([0, 1, 2, 3, 4], 1, lambda rung: -(rung - 3) ** 2)
    (3, 0)
    """
    here = min(range(len(ladder)), key=lambda rung: abs(ladder[rung] - start))
    highest = value(ladder[here])
    for way in (1, -1):
        moved = False
        while 0 <= here + way < len(ladder) and go_on():
            there = value(ladder[here + way])
            if there <= highest:
                break
            here, highest, moved = here + way, there, True
        if moved:
            break
    return ladder[here], highest
