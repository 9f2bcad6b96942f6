"""``densirank tune``: search, watch, and say what to fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from densirank.options import (
    INTERRUPTED,
    DataArgument,
    DeviceOption,
    JsonOption,
    MethodOption,
    PrecisionOption,
    SeedOption,
    SettingOption,
    Source,
    ValidSplitOption,
    choice,
    err,
    out,
    reading_by_options,
    settings_from,
    toml_from,
)
from densirank.plotting import can_draw
from densirank.tuning import search
from densirank.tuning.figure import draw
from densirank.tuning.progress import SearchBar
from densirank.tuning.records import BEST
from densirank.tuning.trials import Study, best_of

FIGURE = "trials.png"
SHOWN = 6
"""Trials in the table at the end."""
NOTABLE = 1.005
"""How much better an iterate before the end of a schedule must be to be worth a word."""


@reading_by_options
def tune(
    data: DataArgument,
    source: Source,
    out_dir: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the search.")],
    method: MethodOption = "wd-lgcn",
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="How many trials. Default: 30; with --grid, as many as it takes."),
    ] = None,
    grid: Annotated[
        bool, typer.Option("--grid", help="Climb over a grid, instead of asking Optuna.")
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
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    seed: SeedOption = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the search in the same folder.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find good settings for a file of interactions, judged by items that are held out.

    Writes trials.jsonl, trials.png and best.toml, which 'densirank fit --config' reads.
    """
    fixed = settings_from(None, settings or [])
    described = None if space is None else toml_from(space)
    interactions = source.interactions(data, "train")
    err.print(
        f"{interactions.n_users:,} users, {interactions.n_items:,} items, "
        f"{len(interactions):,} pairs; {method}"
    )
    with SearchBar(err, trials or (None if grid else search.DEFAULT_TRIALS)) as bar:
        study = search.tune(
            interactions,
            method,
            described,
            trials=trials,
            grid=grid,
            valid=valid,
            valid_split=choice("--valid-split", valid_split, ("last", "random")),
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
        err.print(
            f"Interrupted: what is finished ({len(study.trials)}) is kept in {out_dir}; "
            "the same command with --resume goes on.",
            soft_wrap=True,
        )
    if not study.interrupted or best_of(study.trials) is not None:
        _show(study, out_dir, as_json)
    if study.interrupted:
        raise typer.Exit(INTERRUPTED)


def _show(study: Study, folder: Path, as_json: bool) -> None:
    best = study.best
    if can_draw():
        draw(study, folder / FIGURE)
    else:
        err.print(f"No {FIGURE}: matplotlib is not installed (pip install 'densirank[plots]').")
    if as_json:
        out.print_json(
            json.dumps(
                {
                    "method": study.method.name,
                    "settings": study.settings,
                    "best": best.to_json(),
                    "trials": [trial.to_json() for trial in study.trials],
                }
            )
        )
    else:
        out.print(_table(study))
    early = sum(trial.status == "pruned" for trial in study.trials)
    err.print(
        f"Best of {len(study.trials)} trials ({early} stopped early): validation nDCG@20 "
        f"{best.ndcg:.4f}. Fit all data with: densirank fit DATA --method {study.method.name} "
        f"--config {folder / BEST} --out MODEL",
        highlight=False,
        soft_wrap=True,
    )
    peak = best.best_until(1.0)
    if peak is not None and peak > best.ndcg * NOTABLE:
        err.print(
            f"It had {peak:.4f} at iteration {best.best_iteration} of {best.iterations}, but its "
            "step size falls to the end: a shorter schedule may do better (search iterations).",
            highlight=False,
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
