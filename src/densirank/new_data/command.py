"""``densirank update``, and folding a history in from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densirank import Ranker, load
from densirank.errors import InputError
from densirank.options import (
    INTERRUPTED,
    DataArgument,
    DeviceOption,
    ModelFolder,
    Source,
    err,
    reading_by_options,
)
from densirank.progress import ProgressBar
from densirank.storage import prepare_folder

HistoryOption = Annotated[
    str | None,
    typer.Option(
        metavar="ITEM,ITEM,…", help="Rank for somebody new, by the items they had (fold-in)."
    ),
]
UnknownOption = Annotated[
    str,
    typer.Option(metavar="error|popular", help="What a user gets whom the model does not know."),
]


@reading_by_options
def update(
    model: ModelFolder,
    data: DataArgument,
    source: Source,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the model.")],
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps. Default: half of those of the fit."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Teach a model new interactions, new users and items included, without starting again."""
    ranker = load(model, device)
    new = source.interactions(data, "train")
    prepare_folder(out_dir)
    with ProgressBar(err) as bar:
        updated = ranker.update(new, iterations, callbacks=[bar])
    if updated.training_.get("interrupted"):
        err.print("Interrupted: nothing was written.")
        raise typer.Exit(INTERRUPTED)
    updated.save(out_dir)
    before, after = ranker.interactions_, updated.interactions_
    err.print(
        f"{len(after) - len(before):,} new pairs, {after.n_users - before.n_users:,} new users, "
        f"{after.n_items - before.n_items:,} new items. Model written to {out_dir}.",
        soft_wrap=True,
    )


def folded_in(ranker: Ranker, history: str) -> Ranker:
    """A ranker of the one person who had these items, separated by commas."""
    items = [item.strip() for item in history.split(",") if item.strip()]
    if not items:
        raise InputError("--history takes item ids separated by commas")
    folded = ranker.fold_in([(0, item) for item in items])
    if folded.folded_in_.unknown_items:
        err.print(f"{folded.folded_in_.unknown_items:,} items are unknown to the model.")
    return folded
