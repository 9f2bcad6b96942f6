"""The command line: parse, call, print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.table import Column, Table
from rich.text import Text

from densirank import METHODS, __version__, load
from densirank.atomic import written_atomically
from densirank.batch.order import Order
from densirank.batch.running import recommend_all, recommend_all_on_ray
from densirank.calibrating.command import calibrate
from densirank.distributed.evaluating import evaluate_together, require_same
from densirank.distributed.group import joined, under_torchrun
from densirank.errors import DensirankError, InputError, TrainingError
from densirank.experiments.command import paper
from densirank.export.command import export
from densirank.fit_command import fit
from densirank.indexing.command import index
from densirank.new_data.command import HistoryOption, UnknownOption, folded_in, update
from densirank.options import (
    DataArgument,
    DataDirOption,
    DeviceOption,
    FormatOption,
    ItemColumn,
    JsonOption,
    ModelFolder,
    Source,
    UserColumn,
    choice,
    err,
    out,
    say_error,
)
from densirank.partition.command import partition
from densirank.serving.command import serve
from densirank.storage import model_fingerprint, save_metrics
from densirank.tuning.command import tune

app = typer.Typer(
    name="densirank",
    help="Learn from clicks, plays or purchases what people will want next, and rank by it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


app.command()(fit)
app.command()(tune)
app.command()(calibrate)
app.command()(update)
app.command()(paper)
app.command()(serve)
app.command()(partition)
app.command()(index)
app.command()(export)


@app.command()
def evaluate(
    model: ModelFolder,
    test: DataArgument,
    k: Annotated[int, typer.Option("-k", min=1, help="Length of the lists.")] = 20,
    as_json: JsonOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the figures with the model, for its card.")
    ] = False,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    format: FormatOption = None,
    data_dir: DataDirOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Measure a model on held-out interactions: recall, nDCG and more at k, over all items."""
    options = {"user_column": user_column, "item_column": item_column, "format": format}
    with joined(device, say_error) as world:
        ranker = load(model, device)
        data = Source(data_dir, options).interactions(test, "test")
        require_same(world, "model", model_fingerprint(model))
        require_same(world, "test data", data.fingerprint)
        held_out = ranker.held_out(data)
        metrics = held_out.summary(evaluate_together(held_out, ranker.scorer_, k, world))
    if not world.first:
        return
    if keep:
        save_metrics(model, metrics)
    if as_json:
        out.print_json(json.dumps(metrics))
    else:
        table = Table("metric", "value")
        for name, value in metrics.items():
            table.add_row(name, f"{value:.4f}" if isinstance(value, float) else f"{value:,}")
        out.print(table)
    for what in ("users", "items"):
        if metrics[f"unknown_{what}"]:
            err.print(f"{metrics[f'unknown_{what}']:,} test {what} are unknown to the model.")
    if metrics["seen_pairs"]:
        err.print(
            f"{metrics['seen_pairs']:,} test pairs are training pairs: they are never listed."
        )


@app.command()
def recommend(
    model: ModelFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="A user; may be repeated.")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every user of the model.")] = False,
    history: HistoryOption = None,
    unknown: UnknownOption = "error",
    k: Annotated[int, typer.Option("-k", min=1, help="Items a user.")] = 10,
    as_json: JsonOption = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.parquet", help="Write a Parquet file.")
    ] = None,
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Search by the model's index; no probabilities then."),
    ] = False,
    engine: Annotated[
        str, typer.Option(help="Who makes the parts of --all --out: local or ray, a Ray cluster.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers of --engine ray. Default: one for each CPU or GPU."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """List the items people are most likely to want next, with their probabilities.

    --all --out FILE works through the users in parts, in bounded memory; under torchrun, or with
    --engine ray, several processes share them. Stopped in any way, the same command goes on where
    it was, unless the model or an option has changed since.
    """
    if [bool(user), everyone, history is not None].count(True) != 1:
        raise InputError(
            "say for whom: --user ID (once or more), --all, or --history ITEM,ITEM,… of somebody"
        )
    if as_json and out_file is not None:
        raise InputError("--json and --out exclude each other")
    if out_file is not None and out_file.is_dir():
        raise InputError(f"{out_file} is a folder; --out names the file to write")
    if out_file is not None and not out_file.parent.is_dir():
        raise InputError(f"there is no folder {out_file.parent} to write {out_file.name} to")
    on_ray = choice("--engine", engine, ("local", "ray")) == "ray"
    if everyone and out_file is not None:
        order = Order(model.absolute(), out_file.absolute(), k, approximate, device)
        if on_ray:
            rows = recommend_all_on_ray(order, workers)
        else:
            with joined(device, say_error) as world:
                rows = recommend_all(order, world)
            if not world.first:
                return
        err.print(f"{rows:,} rows written to {out_file}", soft_wrap=True)
        return
    if on_ray or under_torchrun():
        raise InputError("several processes share the work of --all with --out FILE, and no other")
    ranker = load(model, device)
    if history is not None:
        ranker = folded_in(ranker, history)
    policy = choice("--unknown", unknown, ("error", "popular"))
    frame = ranker.recommend(user or None, k, unknown=policy, approximate=approximate)
    if history is not None:
        frame = frame.drop("user_id")
    if out_file is not None:
        with written_atomically(out_file) as temporary:
            frame.write_parquet(temporary)
        err.print(f"{frame.height:,} rows written to {out_file}", soft_wrap=True)
    elif as_json:
        out.print_json(json.dumps(frame.to_dicts()))
    else:
        _print_frame(frame)


@app.command()
def similar(
    model: ModelFolder,
    item: Annotated[str, typer.Argument(metavar="ITEM", help="An item's id.")],
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 10,
    as_json: JsonOption = False,
) -> None:
    """List the items most similar to one, by the angle or the weight between them."""
    frame = load(model, "cpu").similar_items(item, k)
    if as_json:
        out.print_json(json.dumps(frame.to_dicts()))
    else:
        _print_frame(frame)


@app.command()
def methods(as_json: JsonOption = False) -> None:
    """List the methods: each is a model, a risk and a constraint."""
    rows = [
        {
            "method": m.name,
            "model": m.model,
            "risk": m.risk,
            "max_norm": m.max_norm,
            "summary": m.summary,
        }
        for m in METHODS.values()
    ]
    if as_json:
        out.print_json(json.dumps(rows))
        return
    table = Table(Column("method", no_wrap=True), "what it is", "max_norm", box=SIMPLE)
    for m in METHODS.values():
        table.add_row(m.name, m.summary, "–" if m.max_norm is None else f"{m.max_norm:g}")
    out.print(table)


@app.command()
def doctor() -> None:
    """Say what this machine has: versions, threads, GPU, and whether a small fit works."""
    from densirank.doctor import examine

    table = Table("what", "found")
    healthy = True
    for finding in examine():
        healthy &= finding.good
        table.add_row(finding.what, Text(finding.found, style="" if finding.good else "red"))
    out.print(table)
    if not healthy:
        raise typer.Exit(1)


def _print_frame(frame: Any) -> None:
    table = Table(*frame.columns)
    for row in frame.iter_rows(named=True):
        table.add_row(
            *(
                "–"
                if value is None
                else f"{value:.2%}"
                if name == "probability"
                else f"{value:.4f}"
                if isinstance(value, float)
                else str(value)
                for name, value in row.items()
            )
        )
    out.print(table)


def _version(show: bool) -> None:
    if show:
        out.print(f"densirank {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run a command; what a person can put right is told in one sentence, not a traceback."""
    try:
        app()
    except TrainingError as error:
        _complain(str(error), status=1)
    except DensirankError as error:
        _complain(str(error), status=2)
    except OSError as error:
        _complain(f"{error.filename or 'input or output'}: {error.strerror or error}", status=2)


def _complain(sentence: str, status: int) -> None:
    say_error(sentence)
    sys.exit(status)
