"""Recommendations for everybody by several processes, each making every so-many-th part.

The parts are those of a single process and are made as it makes them, so the file is the same.
All processes see one folder; the first one claims it, and puts the parts together in the end.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from densirank.batch.parts import Batch
from densirank.distributed.group import World


def own_parts(batch: Batch, world: World) -> range:
    """The parts of this process; none, where there are more processes than parts."""
    return range(world.rank, batch.n_parts, world.size)


def run_together(
    batch: Batch, world: World, on_part: Callable[[int], None] = lambda done: None
) -> int:
    """Write the file and return its number of rows; ``on_part`` hears of this process's parts."""
    if world.first:
        batch.claim_folder()
    world.wait()
    batch.check_folder(f"process {world.rank}")
    for done, number in enumerate(own_parts(batch, world), start=1):
        batch.make(number)
        on_part(done)
    world.wait()
    rows = batch.finish() if world.first else 0
    return int(world.sum_(torch.tensor(rows, device=world.device)))
