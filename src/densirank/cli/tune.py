"""``densirank tune``: search, watch, and say what to fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
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
    JsonOption,
    MinRating,
    OrderedOption,
    PrecisionOption,
    RatingColumn,
    SeedOption,
    SettingOption,
    TimestampColumn,
    TimestampFormat,
    UserColumn,
    ValidSplitOption,
    WeightColumn,
    reading_sentence,
    settings_from,
    source_of,
    toml_from,
    validation_of,
)
from densirank.plotting import can_draw
from densirank.progress import Bars

if TYPE_CHECKING:
    from densirank.search.study import Study
    from densirank.search.trial import Trial
    from densirank.training.callbacks import Report

FIGURE = "trials.png"
SHOWN = 6
"""Trials in the table at the end."""
NOTABLE = 1.005
"""How much better an iterate before the end of a schedule must be to be worth a word."""


def tune(
    *,
    data: DataArgument,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the search.")],
    method: Annotated[
        str, typer.Option(is_eager=True, help="See 'densirank methods'.")
    ] = "wd-lgcn",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="How many trials. Default: 30; with --grid, as many as it takes."),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Walk over a grid instead of asking Optuna.")
    ] = False,
    space: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="What is searched: setting = \\[choices] or {low = …, high = …, log = true}.",
        ),
    ] = None,
    valid: Annotated[
        float, typer.Option(metavar="FRACTION", help="Share of each user's items to hold out.")
    ] = 0.2,
    valid_split: ValidSplitOption = None,
    settings: SettingOption = None,
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
        bool, typer.Option("--resume", help="Go on with the search in the same folder.")
    ] = False,
    as_json: JsonOption = False,
    help_settings: HelpSettingsOption = False,
) -> None:
    """Find good settings for a file of interactions, judged by items that are held out.

    Writes trials.jsonl, trials.png and best.toml, which 'densirank fit --config' reads.
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
    from densirank.search import tune as search
    from densirank.search.trial import best_of

    fixed = settings_from(method, assignments=settings)
    described = None if space is None else toml_from(space)
    interactions = source.interactions(data, "train")
    printing.err.print(reading_sentence(interactions, validation_of(interactions, valid_split)))
    printing.err.print(
        f"{interactions.n_users:,} users, {interactions.n_items:,} items, "
        f"{len(interactions):,} pairs; {method}"
    )
    with SearchBar(trials or (None if grid else search.DEFAULT_TRIALS)) as bar:
        study = search.tune(
            interactions,
            method,
            described,
            trials=trials,
            grid=grid,
            valid=valid,
            valid_split=valid_split,
            seed=seed,
            device=device,
            precision=precision,
            settings=fixed,
            folder=out_dir,
            resume=resume,
            callbacks=[bar.report],
            on_trial=bar.trial,
        )
    if study.interrupted:
        printing.err.print(
            f"Interrupted: what is finished ({len(study.trials)}) is kept in {out_dir}; "
            "the same command with --resume goes on.",
        )
    if not study.interrupted or best_of(study.trials) is not None:
        _show(study, out_dir, as_json)
    if study.interrupted:
        raise typer.Exit(printing.INTERRUPTED)


def _show(study: Study, folder: Path, as_json: bool) -> None:
    from densirank.search.figure import draw
    from densirank.search.study import BEST

    best = study.best
    if can_draw():
        draw(study, folder / FIGURE)
    else:
        printing.err.print(
            f"No {FIGURE}: matplotlib is not installed (pip install 'densirank[plots]')."
        )
    if as_json:
        printing.print_json(
            {
                "method": study.method.name,
                "settings": study.settings,
                "best": best.to_json(),
                "trials": [trial.to_json() for trial in study.trials],
            }
        )
    else:
        printing.out.print(_table(study))
    early = sum(trial.status == "pruned" for trial in study.trials)
    printing.err.print(
        f"Best of {len(study.trials)} trials ({early} stopped early): validation nDCG@20 "
        f"{best.ndcg:.4f}. Fit all data with: densirank fit DATA --method {study.method.name} "
        f"--config {folder / BEST} --out MODEL",
    )
    peak = best.best_until(1.0)
    if peak is not None and peak > best.ndcg * NOTABLE:
        printing.err.print(
            f"It had {peak:.4f} at iteration {best.best_iteration} of {best.iterations}, but its "
            "step size falls to the end: a shorter schedule may do better (search iterations).",
        )


def _table(study: Study) -> Table:
    """The best of the trials that came to their end."""
    finished = (trial for trial in study.trials if trial.status == "finished")
    ranked = sorted(finished, key=lambda trial: -trial.ndcg)
    shown = ranked[:SHOWN]
    table = Table("trial", *(str(trial.number) for trial in shown))  # settings may be many
    table.add_row("nDCG@20", *(f"{trial.ndcg:.4f}" for trial in shown), end_section=True)
    for key in study.space:
        table.add_row(key, *(str(trial.settings[key]) for trial in shown))
    lengths = ("–" if trial.iterations is None else str(trial.iterations) for trial in shown)
    table.add_row("iterations", *lengths)
    table.add_row("seconds", *(f"{trial.seconds:.1f}" for trial in shown))
    return table


class SearchBar(Bars):
    """Two bars on a terminal, the trials and the training of one; elsewhere a line a trial."""

    def __init__(self, trials: int | None) -> None:
        super().__init__(printing.err, TimeElapsedColumn())
        self._trials = self._progress.add_task("trials", total=trials, status="")
        self._training = self._progress.add_task("training", total=None, status="")

    def report(self, report: Report) -> None:
        """Take a report of the trial that is being fitted: a callback of the trainer."""
        self._progress.update(self._training, completed=report.iteration, total=report.iterations)
        if report.validation is not None:
            self._progress.update(self._training, status=f"nDCG@20 {report.validation:.4f}")

    def trial(self, trials: Sequence[Trial]) -> None:
        """Take the trials so far, of which the last one is new."""
        from densirank.search.trial import best_of

        trial, best = trials[-1], best_of(trials)
        status = "" if best is None else f"best nDCG@20 {best.ndcg:.4f}"
        self._progress.update(self._trials, completed=len(trials), status=status)
        self._progress.update(self._training, completed=0, status="")
        settings = ", ".join(f"{key} {value}" for key, value in trial.settings.items())
        self._console.print(
            f"trial {trial.number}: {_outcome(trial)}; {settings}; {trial.seconds:.1f} s"
        )


def _outcome(trial: Trial) -> str:
    """How well a trial did, and how it ended if not at its end."""
    if trial.status == "diverged":
        return "diverged"
    return f"nDCG@20 {trial.ndcg:.4f}" + (", stopped early" if trial.status == "pruned" else "")
