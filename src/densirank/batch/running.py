"""``densirank recommend --all --out FILE`` as a person watches it."""

from __future__ import annotations

from pathlib import Path

from rich.progress import TimeRemainingColumn

from densirank import load
from densirank.batch.parts import Batch
from densirank.errors import InputError
from densirank.options import err
from densirank.progress import Bars
from densirank.storage import model_fingerprint


def recommend_all(model: Path, target: Path, k: int, *, approximate: bool, device: str) -> int:
    """Write everybody's recommendations to a Parquet file, and return its number of rows."""
    fingerprint = model_fingerprint(model)
    ranker = load(model, device)
    if model_fingerprint(model) != fingerprint:
        raise InputError(f"the model in {model} was replaced while it was read: run this again")
    batch = Batch(ranker, fingerprint, target, k, approximate)
    done = batch.parts_done()
    if done:
        err.print(f"{done:,} of {batch.n_parts:,} parts are there already: going on.")
    with PartsBar(batch.n_parts) as bar:
        return batch.run(bar.part)


class PartsBar(Bars):
    """A bar of the parts of a batch."""

    def __init__(self, n_parts: int) -> None:
        super().__init__(err, TimeRemainingColumn())
        self._task = self._progress.add_task("parts", total=n_parts, status="")

    def part(self, done: int) -> None:
        """So many parts are done."""
        self._progress.update(self._task, completed=done)
