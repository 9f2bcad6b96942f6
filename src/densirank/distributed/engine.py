"""Who does the work of a fit: this process, or all that torchrun has started."""

from __future__ import annotations

from functools import partial

from densirank.distributed.group import World
from densirank.errors import InputError
from densirank.fit import Engine, fit_scorer


def engine_of(world: World, precision: str = "auto") -> Engine:
    """What fits in this world; what several processes need is only loaded where there are any."""
    if not world.together:
        return fit_scorer
    if precision == "half":
        raise InputError("several processes compute in float32; choose that precision (or auto)")
    from densirank.distributed.fitting import fit_together

    return partial(fit_together, world)
