"""``densirank update``: continue the training of a model with new interactions."""

from __future__ import annotations

from typing import Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import (
    DataArgument,
    DeviceOption,
    ModelFolder,
    OutFolder,
    Source,
    reading_sentence,
    reads_training_data,
)
from densirank.progress import TrainingBar


@reads_training_data
def update(
    *,
    model: ModelFolder,
    data: DataArgument,
    out_dir: OutFolder,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps. Default: half as many as in the fit."),
    ] = None,
    source: Source,
    device: DeviceOption = "auto",
) -> None:
    """Continue the training of a model with new interactions, users and items."""
    from densirank import load
    from densirank.storage import prepare_folder

    ranker = load(model, device)
    new = source.interactions(data, "train")
    printing.err.print(reading_sentence(new, "none"))
    prepare_folder(out_dir)
    with TrainingBar(printing.err) as bar:
        updated = ranker.update(new, iterations, callbacks=[bar])
    if updated.training_.get("interrupted"):
        printing.err.print("Interrupted: nothing was written.")
        raise typer.Exit(printing.INTERRUPTED)
    updated.save(out_dir)
    before, after = ranker.interactions_, updated.interactions_
    printing.err.print(
        f"{len(after) - len(before):,} new pairs, {after.n_users - before.n_users:,} new users, "
        f"{after.n_items - before.n_items:,} new items. Model written to {out_dir}."
    )
