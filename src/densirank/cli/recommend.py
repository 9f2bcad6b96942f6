"""``densirank recommend``: lists for users, a history, or all users."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from densirank.cli import printing
from densirank.cli.options import (
    DeviceOption,
    FilterSeenOption,
    JsonOption,
    ModelFolder,
    TitlesOption,
    UnknownOption,
    check_target,
    ids_in,
)
from densirank.errors import InputError

if TYPE_CHECKING:
    from densirank.parallel.recommend_all import Order, Parts
    from densirank.ranker import Ranker

FORMATS = (".csv", ".parquet", ".jsonl")
"""Suffixes of --out."""


def recommend(
    model: ModelFolder,
    user: Annotated[
        list[str] | None, typer.Option("--user", metavar="ID", help="A user; may be repeated.")
    ] = None,
    all_users: Annotated[bool, typer.Option("--all", help="Every user of the model.")] = False,
    history: Annotated[
        str | None,
        typer.Option(
            metavar="ITEM,ITEM,…", help="Rank for a new user with these items, oldest first."
        ),
    ] = None,
    unknown: UnknownOption = "error",
    k: Annotated[int, typer.Option("-k", min=1, help="Items per user.")] = 10,
    items: Annotated[
        str | None, typer.Option(metavar="ITEM,ITEM,…", help="The only items considered.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(metavar="ITEM,ITEM,…", help="Items to leave out.")
    ] = None,
    filter_seen: FilterSeenOption = True,
    titles: TitlesOption = None,
    as_json: JsonOption = False,
    out_file: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write a .csv, .parquet or .jsonl file."),
    ] = None,
    rank_by: Annotated[
        Literal["score", "probability"],
        typer.Option(help="What the order of a list follows."),
    ] = "score",
    approximate: Annotated[
        bool,
        typer.Option("--approximate", help="Search the index of the model; without probabilities."),
    ] = False,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where --all --out runs: on this machine or on a Ray cluster."),
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Workers of --engine ray. Default: one per CPU or GPU."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """List the items people are most likely to want next, with their probabilities.

    --all --out FILE computes the users in parts, in bounded memory; under torchrun, or with
    --engine ray, several processes share them. If it was stopped, the same command continues,
    unless the model or an option has changed.
    """
    if [bool(user), all_users, history is not None].count(True) != 1:
        raise InputError("pass exactly one of --user, --all or --history")
    if as_json and out_file is not None:
        raise InputError("--json and --out are mutually exclusive")
    if out_file is not None:
        check_target(out_file)
        if out_file.suffix.lower() not in FORMATS:
            raise InputError(f"--out {out_file}: the suffix must be one of {', '.join(FORMATS)}")
    only = None if items is None else ids_in(items, "--items")
    without = None if exclude is None else ids_in(exclude, "--exclude")
    past = None if history is None else ids_in(history, "--history")

    from densirank import frames, load
    from densirank.data.titles import Titles
    from densirank.files import written_atomically
    from densirank.parallel.joining import under_torchrun
    from densirank.parallel.recommend_all import Order

    if all_users and out_file is not None:
        order = Order(
            model.absolute(),
            out_file.absolute(),
            k,
            approximate,
            device,
            filter_seen=filter_seen,
            items=only,
            exclude=without,
            rank_by=rank_by,
            titles=None if titles is None else titles.absolute(),
        )
        rows = _all_on_ray(order, workers) if engine == "ray" else _all(order)
        if rows is not None:
            printing.err.print(f"{rows:,} rows written to {out_file}")
        return
    if engine == "ray" or under_torchrun():
        raise InputError("several processes can only share the work of --all with --out FILE")
    ranker = load(model, device)
    names = None if titles is None else Titles.read(titles, ranker.interactions_.item_ids)
    asked: list[str] | str | int | None = user or None
    if past is not None and unknown != "error" and not _knows_any(ranker, past):
        asked = _nobody(ranker)
    elif past is not None:
        ranker = _folded_in(ranker, past)
    frame = ranker.recommend(
        asked,
        k,
        filter_seen=filter_seen,
        items=only,
        exclude=without,
        unknown="error" if asked is None else unknown,
        approximate=approximate,
        rank_by=rank_by,
    )
    if names is not None:
        frame = names.beside(frame, ranker.interactions_.item_ids)
    if past is not None:
        frame = frame.drop("user_id")
    if out_file is not None:
        with written_atomically(out_file) as temporary:
            frames.write(frame, temporary, out_file.suffix.lower())
        printing.err.print(f"{frame.height:,} rows written to {out_file}")
    else:
        printing.print_frame(frame, as_json)


def _all(order: Order) -> int | None:
    """Write the lists of all users with all processes; the first one returns the number of rows."""
    from densirank.parallel.joining import joined

    with joined(order.device, printing.say_error) as world:
        with warnings.catch_warnings():
            if not world.first:
                warnings.simplefilter("ignore")
            parts = order.load()
        if world.first:
            _report_earlier_parts(parts)
        with printing.CountBar("parts", len(parts.own(world)) if world.first else 0) as bar:
            rows = parts.run(bar.done, world)
    return rows if world.first else None


def _all_on_ray(order: Order, workers: int | None) -> int:
    """The same on a Ray cluster."""
    from densirank.parallel.ray_cluster import run_on_ray

    parts = order.load()
    _report_earlier_parts(parts)
    with printing.CountBar("parts", parts.n_parts) as bar:
        return run_on_ray(order, parts, workers, bar.done)


def _report_earlier_parts(parts: Parts) -> None:
    done = parts.parts_done()
    if done:
        printing.err.print(f"{done:,} of {parts.n_parts:,} parts exist already and are kept.")


def _knows_any(ranker: Ranker, items: list[str]) -> bool:
    return bool((ranker.interactions_.item_ids.indices(items) >= 0).any())


def _nobody(ranker: Ranker) -> str | int:
    """An id that no user of the model has: whoever has no known item is an unknown user."""
    ids = ranker.interactions_.user_ids
    return f"{ids[-1]}_" if ids.is_text else int(ids.ids[0]) - 1


def _folded_in(ranker: Ranker, history: list[str]) -> Ranker:
    """A ranker of one person with these items."""
    folded = ranker.fold_in([(0, item) for item in history])
    if count := folded.folded_in_.unknown_items:
        those = "item is" if count == 1 else "items are"
        printing.say_warning(f"{count:,} {those} unknown and ignored in --history")
    return folded
