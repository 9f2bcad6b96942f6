"""``densirank fit``: train what was asked for, or choose what to train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densirank import Interactions, Ranker
from densirank.automatic import fit_within
from densirank.automatic.budget import seconds_of
from densirank.automatic.progress import BudgetBar, chosen_sentence, table_of
from densirank.distributed.engine import engine_of
from densirank.distributed.folder import FitFolder
from densirank.distributed.group import World, joined
from densirank.errors import InputError
from densirank.options import (
    INTERRUPTED,
    DataArgument,
    DeviceOption,
    PrecisionOption,
    SeedOption,
    SettingOption,
    Source,
    ValidSplitOption,
    choice,
    err,
    reading_by_options,
    say_error,
    settings_from,
)
from densirank.progress import ProgressBar
from densirank.storage import TRAINING_LOG
from densirank.training.callbacks import JsonLines

USUAL_METHOD = "wd-lgcn"
"""What settings are for where no method is named."""
USUAL_BUDGET = "60s"


@reading_by_options
def fit(
    train: DataArgument,
    source: Source,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for the model.")],
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time to choose and fit in: 60s (the default), 2m, 1.5h or seconds. "
            "Not with --method, --set or --config.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help=f"See 'densirank methods'; with --set or --config, {USUAL_METHOD}."),
    ] = None,
    valid: Annotated[
        str | None,
        typer.Option(
            metavar="FRACTION|FILE",
            help="Choose, or stop early, on nDCG@20 of this share of each user's items, or of "
            "this file.",
        ),
    ] = None,
    valid_split: ValidSplitOption = None,
    settings: SettingOption = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="Settings as a TOML file.")
    ] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    seed: SeedOption = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run in the same folder.")
    ] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Seconds between two checkpoints.")
    ] = 30.0,
) -> None:
    """Fit a model to a file of interactions.

    Without --method, --set and --config it chooses for itself: it holds items out, tries what the
    --budget has time for, and fits what ranked them best to everything. With any of them it trains
    what they say.

    Reads CSV, TSV, Parquet, JSON lines, RecBole .inter and the text form 'user item item …'.
    """
    split = choice("--valid-split", valid_split, ("last", "random"))
    with joined(device, say_error) as world:
        err.quiet = not world.first
        asked = None
        if method is not None or settings or config is not None:
            _refuse_budget(budget)
            chosen = settings_from(config, settings or [])
            name = method or USUAL_METHOD
            asked = Ranker(name, seed=seed, device=device, precision=precision, **chosen)
        else:
            _check_automatic(world, resume)
        seconds = seconds_of(budget or USUAL_BUDGET)
        data, held_out = source.interactions(train, "train", world), _validation(valid, source)
        place = FitFolder(out_dir, world)
        if not place.prepare(resume):
            err.print(
                f"{out_dir} holds a finished model: there is nothing to resume.", soft_wrap=True
            )
            return
        log = JsonLines(out_dir / TRAINING_LOG)
        users, items, pairs = data.totals
        size = f"{users:,} users, {items:,} items, {pairs:,} pairs"
        if asked is None:
            err.print(f"{size}; choosing within {seconds:g} s")
            with BudgetBar(err, seconds) as bar:
                ranker = fit_within(
                    data,
                    seconds,
                    valid=held_out,
                    valid_split=split,
                    seed=seed,
                    device=device,
                    precision=precision,
                    callbacks=[log],
                    watcher=bar,
                )
        else:
            together = f", {world.size} processes" if world.together else ""
            err.print(f"{size}; {asked.method.name}{together}")
            with ProgressBar(err) as training_bar:
                ranker = asked.fit(
                    data,
                    held_out,
                    valid_split=split,
                    callbacks=[training_bar, log],
                    checkpoint=place.checkpoint,
                    checkpoint_seconds=checkpoint_every,
                    engine=engine_of(world, precision),
                )
        interrupted = place.keep(ranker)
    if asked is None:
        interrupted |= _tell_choice(ranker)
    if world.first:
        err.print(_fit_summary(ranker, out_dir, can_resume=asked is not None), soft_wrap=True)
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _refuse_budget(budget: str | None) -> None:
    if budget is not None:
        raise InputError(
            "--budget is the time to choose in, and --method, --set and --config choose already: "
            "leave out the one or the others"
        )


def _check_automatic(world: World, resume: bool) -> None:
    """Refuse what only a fit that is told what to train can do."""
    if world.together:
        raise InputError(
            "several processes train what they are told: say --method (densirank, for example), "
            "or let one process choose"
        )
    if resume:
        raise InputError(
            "a fit that chooses for itself cannot be resumed: start it anew, or say what to train "
            "by --method, --set or --config"
        )


def _validation(valid: str | None, source: Source) -> float | Interactions | None:
    """A fraction where the text is a number, otherwise the interactions of that file."""
    if valid is None:
        return None
    try:
        fraction = float(valid)
    except ValueError:
        return source.interactions(valid, "test")
    if not 0 < fraction < 1:
        raise InputError(f"--valid takes a fraction between 0 and 1 or a file, not {valid}")
    return fraction


def _tell_choice(ranker: Ranker) -> bool:
    """Show what was tried and say what was chosen; whether the search was interrupted."""
    choice_made = ranker.training_["automatic"]
    if choice_made["attempts"]:
        err.print(table_of(choice_made))
    err.print(chosen_sentence(choice_made), highlight=False, soft_wrap=True)
    return bool(choice_made["search_interrupted"])


def _fit_summary(ranker: Ranker, folder: Path, can_resume: bool) -> str:
    record = ranker.training_
    if "iterations" not in record:
        return f"Model written to {folder}."
    if record["interrupted"]:
        goes_on = "; the same command with --resume goes on" if can_resume else ""
        return (
            f"Interrupted after {record['iterations']} iterations. What there is was saved to "
            f"{folder}{goes_on}."
        )
    found = ""
    if record["best_validation_ndcg@20"] is not None:
        found = (
            f"; best validation nDCG@20 {record['best_validation_ndcg@20']:.4f} "
            f"at iteration {record['best_iteration']}"
        )
    seconds, iterations = record["seconds"], record["iterations"]
    return f"{iterations} iterations in {seconds:.1f} s{found}. Model written to {folder}."
