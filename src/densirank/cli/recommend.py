"""``densirank recommend``: lists for some users, a history, or everyone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from densirank.cli import printing
from densirank.cli.options import (
    DeviceOption,
    JsonOption,
    ModelFolder,
)
from densirank.errors import InputError

if TYPE_CHECKING:
    from densirank.parallel.recommend_all import Order, Parts
    from densirank.ranker import Ranker


def recommend(
    model: ModelFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="A user; may be repeated.")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every user of the model.")] = False,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="ITEM,ITEM,…", help="Rank for a new user, by the items they had (fold-in)."
        ),
    ] = None,
    unknown: Annotated[
        Literal["error", "popular"], typer.Option(help="Fallback for users not seen in training.")
    ] = "error",
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
        Literal["local", "ray"],
        typer.Option(help="What makes --all --out: this machine, or a Ray cluster."),
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
        raise InputError("pass exactly one of --user, --all or --history")
    if as_json and out_file is not None:
        raise InputError("--json and --out are mutually exclusive")
    if out_file is not None and out_file.is_dir():
        raise InputError(f"{out_file} is a folder; --out names the file to write")
    if out_file is not None and not out_file.parent.is_dir():
        raise InputError(f"there is no folder {out_file.parent} to write {out_file.name} to")

    from densirank import load
    from densirank.files import written_atomically
    from densirank.parallel.joining import under_torchrun
    from densirank.parallel.recommend_all import Order

    if everyone and out_file is not None:
        order = Order(model.absolute(), out_file.absolute(), k, approximate, device)
        rows = _all_on_ray(order, workers) if engine == "ray" else _all(order)
        if rows is not None:
            printing.err.print(f"{rows:,} rows written to {out_file}")
        return
    if engine == "ray" or under_torchrun():
        raise InputError("several processes share the work of --all with --out FILE only")
    ranker = load(model, device)
    if history is not None:
        ranker = _folded_in(ranker, history)
    frame = ranker.recommend(user or None, k, unknown=unknown, approximate=approximate)
    if history is not None:
        frame = frame.drop("user_id")
    if out_file is not None:
        with written_atomically(out_file) as temporary:
            frame.write_parquet(temporary)
        printing.err.print(f"{frame.height:,} rows written to {out_file}")
    elif as_json:
        printing.print_json(frame.to_dicts())
    else:
        printing.print_frame(frame)


def _all(order: Order) -> int | None:
    """Write everyone's lists with all processes of the run; the first one returns the rows."""
    from densirank.parallel.joining import joined

    with joined(order.device, printing.say_error) as world:
        parts = order.load()
        if world.first:
            _tell_of_earlier_parts(parts)
        with printing.CountBar("parts", len(parts.own(world)) if world.first else 0) as bar:
            rows = parts.run(bar.done, world)
    return rows if world.first else None


def _all_on_ray(order: Order, workers: int | None) -> int:
    """The same by the workers of a Ray cluster."""
    from densirank.parallel.ray_cluster import run_on_ray

    parts = order.load()
    _tell_of_earlier_parts(parts)
    with printing.CountBar("parts", parts.n_parts) as bar:
        return run_on_ray(order, parts, workers, bar.done)


def _tell_of_earlier_parts(parts: Parts) -> None:
    done = parts.parts_done()
    if done:
        printing.err.print(f"{done:,} of {parts.n_parts:,} parts are there already: going on.")


def _folded_in(ranker: Ranker, history: str) -> Ranker:
    """A ranker of the one person who had these items, separated by commas."""
    items = [item.strip() for item in history.split(",") if item.strip()]
    if not items:
        raise InputError("--history takes item ids separated by commas")
    folded = ranker.fold_in([(0, item) for item in items])
    if folded.folded_in_.unknown_items:
        printing.err.print(f"{folded.folded_in_.unknown_items:,} items are unknown to the model.")
    return folded
