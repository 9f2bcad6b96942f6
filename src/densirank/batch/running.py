"""``densirank recommend --all --out FILE`` as a person watches it."""

from __future__ import annotations

from rich.progress import TimeRemainingColumn

from densirank.batch.order import Order
from densirank.batch.parts import Batch
from densirank.batch.ray_cluster import run_on_ray
from densirank.batch.sharing import own_parts, run_together
from densirank.distributed.group import World
from densirank.options import err
from densirank.progress import Bars


def recommend_all(order: Order, world: World) -> int:
    """Write everybody's recommendations to a Parquet file, and return its number of rows."""
    batch = order.batch()
    if world.first:
        tell_of_earlier_parts(batch)
    with PartsBar(len(own_parts(batch, world)) if world.first else 0) as bar:
        return run_together(batch, world, bar.part)


def recommend_all_on_ray(order: Order, workers: int | None) -> int:
    """The same by the workers of a Ray cluster."""
    batch = order.batch()
    tell_of_earlier_parts(batch)
    with PartsBar(batch.n_parts) as bar:
        return run_on_ray(order, batch, workers, bar.part)


def tell_of_earlier_parts(batch: Batch) -> None:
    """Say that a run goes on, if it does."""
    done = batch.parts_done()
    if done:
        err.print(f"{done:,} of {batch.n_parts:,} parts are there already: going on.")


class PartsBar(Bars):
    """A bar of the parts of a batch."""

    def __init__(self, n_parts: int) -> None:
        super().__init__(err, TimeRemainingColumn())
        self._task = self._progress.add_task("parts", total=n_parts, status="")

    def part(self, done: int) -> None:
        """So many parts are done."""
        self._progress.update(self._task, completed=done)
