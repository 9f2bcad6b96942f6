"""``densirank fit``: train what was asked for, or choose what to train."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE
from rich.progress import TimeElapsedColumn
from rich.table import Table

from densirank.cli import printing
from densirank.cli.options import (
    DataArgument,
    DataDirOption,
    DeviceOption,
    EventColumn,
    EventWeights,
    FormatOption,
    HelpSettingsOption,
    ItemColumn,
    MinRating,
    OrderedOption,
    OutFolder,
    OverwriteOption,
    PrecisionOption,
    RatingColumn,
    SeedOption,
    SettingOption,
    Source,
    TimestampColumn,
    TimestampFormat,
    UserColumn,
    ValidSplitOption,
    WeightColumn,
    reading_sentence,
    settings_from,
    source_of,
    validation_of,
)
from densirank.errors import InputError
from densirank.progress import Bars, TrainingBar

if TYPE_CHECKING:
    from densirank.data.interactions import Interactions
    from densirank.ranker import Ranker
    from densirank.search.trial import Trial
    from densirank.training.callbacks import Report
    from densirank.world import World

USUAL_METHOD = "wd-lgcn"
"""What settings are for where no method is named."""
USUAL_BUDGET = "60s"
SHOWN = 5
"""Attempts in the table at the end."""
OF_INTEREST = (
    "dim",
    "iterations",
    "max_norm",
    "l2",
    "base_exponent",
    "recency",
    "filter_weight",
    "filter_recency",
)
"""Settings in the table; the record has all."""


def fit(
    *,
    train: DataArgument,
    out_dir: OutFolder,
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
        typer.Option(
            is_eager=True,
            help=f"See 'densirank methods'; with --set or --config, {USUAL_METHOD}.",
        ),
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
    ordered: OrderedOption = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    timestamp_column: TimestampColumn = None,
    timestamp_format: TimestampFormat = None,
    weight_column: WeightColumn = None,
    rating_column: RatingColumn = None,
    min_rating: MinRating = None,
    event_column: EventColumn = None,
    event_weights: EventWeights = None,
    format: FormatOption = None,
    data_dir: DataDirOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    seed: SeedOption = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run in the same folder.")
    ] = False,
    overwrite: OverwriteOption = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Seconds between two checkpoints.")
    ] = 30.0,
    help_settings: HelpSettingsOption = False,
) -> None:
    """Fit a model to a file of interactions.

    Without --method, --set and --config it chooses for itself: it holds items out, tries what the
    --budget has time for, and fits what ranked them best to everything. With any of them it trains
    what they say.

    Reads CSV, TSV, Parquet, JSON lines, RecBole .inter and the text form 'user item item …'.
    """
    source = source_of(
        ordered=ordered,
        user_column=user_column,
        item_column=item_column,
        timestamp_column=timestamp_column,
        timestamp_format=timestamp_format,
        weight_column=weight_column,
        rating_column=rating_column,
        min_rating=min_rating,
        event_column=event_column,
        event_weights=event_weights,
        format=format,
        data_dir=data_dir,
    )
    from densirank import Ranker
    from densirank.parallel.fit_folder import FitFolder
    from densirank.parallel.joining import joined
    from densirank.ranker import fit_ranker
    from densirank.search.autofit import autofit
    from densirank.search.planning import seconds_of
    from densirank.storage import TRAINING_LOG, check_fitted_to
    from densirank.training.callbacks import JsonLines

    if resume and overwrite:
        raise InputError("--resume and --overwrite are mutually exclusive")
    with joined(device, printing.say_error) as world:
        printing.err.quiet = not world.first
        asked = None
        if method is not None or settings or config is not None:
            if budget is not None:
                raise InputError("--budget cannot be combined with --method, --set or --config")
            name = method or USUAL_METHOD
            chosen = settings_from(name, config, settings)
            asked = Ranker(name, seed=seed, device=device, precision=precision, **chosen)
        else:
            check_automatic(world, resume)
        seconds = seconds_of(budget or USUAL_BUDGET)
        place = FitFolder(out_dir, world)
        place.check(resume, overwrite)
        data, held_out = source.interactions(train, "train", world), _validation(valid, source)
        if not place.prepare(resume):
            if not data.partial:
                check_fitted_to(out_dir, data)
            printing.err.print(f"{out_dir} holds a finished model: there is nothing to resume.")
            return
        validation = f"the items of {valid}"
        if held_out is None and asked is not None:
            validation = "none"
        elif held_out is None or isinstance(held_out, float):
            validation = validation_of(data, valid_split)
        printing.err.print(reading_sentence(data, validation))
        log = JsonLines(out_dir / TRAINING_LOG)
        users, items, pairs = data.totals
        size = f"{users:,} users, {items:,} items, {pairs:,} pairs"
        if asked is None:
            printing.err.print(f"{size}; choosing within {seconds:g} s")
            with BudgetBar(seconds) as bar:
                ranker = autofit(
                    data,
                    seconds,
                    valid=held_out,
                    valid_split=valid_split,
                    seed=seed,
                    device=device,
                    precision=precision,
                    callbacks=[log],
                    watcher=bar,
                )
        else:
            together = f", {world.size} processes" if world.sharded else ""
            printing.err.print(f"{size}; {asked.method}{together}")
            with TrainingBar(printing.err) as training_bar:
                ranker = fit_ranker(
                    asked,
                    data,
                    held_out,
                    valid_split=valid_split,
                    callbacks=[training_bar, log],
                    checkpoint=place.checkpoint,
                    checkpoint_seconds=checkpoint_every,
                    world=world,
                )
        interrupted = place.keep(ranker)
    if asked is None:
        interrupted |= _tell_choice(ranker)
    if world.first:
        printing.err.print(_fit_summary(ranker, out_dir, can_resume=asked is not None))
    if interrupted:
        raise typer.Exit(printing.INTERRUPTED)


def check_automatic(world: World, resume: bool) -> None:
    """Refuse what only a fit that is told what to train can do."""
    if world.sharded:
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


# --- a choice as a person watches it, and what it came to -----------------------------------------


class BudgetBar(Bars):
    """A bar of the seconds on a terminal, with what is being done; elsewhere a line an attempt."""

    def __init__(self, seconds: float) -> None:
        from densirank.search.planning import Clock

        super().__init__(printing.err, TimeElapsedColumn())
        self._clock = Clock(seconds)
        self._doing = self._best = ""
        self._task = self._progress.add_task("seconds", total=math.ceil(seconds), status="")

    def doing(self, what: str) -> None:
        """Something begins."""
        self._doing = what
        self._show()

    def tried(self, trials: Sequence[Trial]) -> None:
        """The last one is new."""
        from densirank.search.trial import best_of

        new, best = trials[-1], best_of(trials)
        self._best = "" if best is None else f"  best nDCG@20 {best.ndcg:.4f}"
        self._show()
        if not self._console.is_terminal:
            self._console.print(
                f"attempt {new.number}: nDCG@20 {new.ndcg:.4f} in {new.seconds:.1f} s; {new}"
            )

    def report(self, report: Report) -> None:
        """A callback of the trainer."""
        self._show(f", iteration {report.iteration}/{report.iterations}")

    def _show(self, how_far: str = "") -> None:
        elapsed = min(math.ceil(self._clock.budget), round(self._clock.elapsed))
        status = f"{self._doing}{how_far}{self._best}"
        self._progress.update(self._task, completed=elapsed, status=status)


def _tell_choice(ranker: Ranker) -> bool:
    """Show what was tried and say what was chosen; whether the search was interrupted."""
    choice_made = ranker.training_["automatic"]
    if choice_made["attempts"]:
        printing.err.print(_table_of(choice_made))
    printing.err.print(_chosen_sentence(choice_made))
    return bool(choice_made["search_interrupted"])


def _table_of(record: Mapping[str, Any]) -> Table:
    """The best attempts of ``training_["automatic"]``, with what tells them apart."""
    attempts = record["attempts"]
    ranked = sorted(attempts, key=lambda attempt: -attempt["validation_ndcg@20"])[:SHOWN]
    table = Table("nDCG@20", "seconds", "what", box=SIMPLE, show_edge=False)
    for attempt in ranked:
        own = attempt["settings"]
        chosen = (f"{key} {own[key]:g}" for key in OF_INTEREST if key in own)
        table.add_row(
            f"{attempt['validation_ndcg@20']:.4f}",
            f"{attempt['seconds']:.1f}",
            f"{attempt['method']}: {', '.join(chosen)}",
        )
    return table


def _chosen_sentence(record: Mapping[str, Any]) -> str:
    """What was chosen, of how much, by what."""
    attempts = record["attempts"]
    if not attempts:
        return (
            "No user has two items, so nothing could be held out to choose by: everyone gets what "
            "is popular."
        )
    best = attempts[record["chosen"]]
    cut = "The search was interrupted. " if record["search_interrupted"] else ""
    many = "attempt" if len(attempts) == 1 else "attempts"
    with_filter = " with the item filter" if best["settings"].get("filter_weight") else ""
    return (
        f"{cut}Best of {len(attempts)} {many}: {best['method']}{with_filter}, nDCG@20 "
        f"{best['validation_ndcg@20']:.4f} on the held-out items of "
        f"{record['validation_users']:,} users; fitted to all interactions, "
        f"{record['seconds']:.0f} s of {record['budget_seconds']:g} s in all."
    )
