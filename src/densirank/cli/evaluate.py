"""``densirank evaluate``: how well a model ranks held-out interactions."""

from __future__ import annotations

from typing import Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import (
    DataArgument,
    DataDirOption,
    DeviceOption,
    EventColumn,
    EventWeights,
    FilterSeenOption,
    FormatOption,
    ItemColumn,
    JsonOption,
    MinRating,
    ModelFolder,
    RatingColumn,
    TimestampColumn,
    TimestampFormat,
    UserColumn,
    WeightColumn,
    source_of,
)

USUAL_K = 20


def evaluate(
    *,
    model: ModelFolder,
    test: DataArgument,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", min=1, help="Length of the lists; may be repeated. Default: 20."),
    ] = None,
    filter_seen: FilterSeenOption = True,
    as_json: JsonOption = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store the metrics with the model, for its card.")
    ] = False,
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
) -> None:
    """Measure a model on held-out interactions: recall, nDCG and more at k, over all items.

    With --no-filter-seen, training pairs in the test data can be hits, as where people buy the same
    again.
    """
    source = source_of(
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
    from densirank import load
    from densirank.parallel.joining import joined
    from densirank.storage import model_fingerprint, save_metrics

    with joined(device, printing.say_error) as world:
        ranker = load(model, device)
        data = source.interactions(test, "test")
        if world.size > 1:  # a fingerprint reads all of the data
            world.require_same({"model": model_fingerprint(model), "test data": data.fingerprint})
        held_out = ranker.held_out(data, filter_seen=filter_seen)
        lengths = dict.fromkeys(k or [USUAL_K])
        found = [held_out.evaluate(ranker.scorer_, length, world=world) for length in lengths]
        metrics = held_out.summary(*found)
    if not world.first:
        return
    if keep:
        save_metrics(model, metrics)
    if as_json:
        printing.print_json(metrics)
    else:
        cells = (
            (name, f"{v:.4f}" if isinstance(v, float) else f"{v:,}") for name, v in metrics.items()
        )
        printing.print_table(("metric", "value"), cells)
    for what in ("users", "items"):
        if metrics[f"unknown_{what}"]:
            printing.err.print(
                f"{metrics[f'unknown_{what}']:,} test {what} are unknown to the model."
            )
    if metrics["seen_pairs"] and filter_seen:
        printing.err.print(
            f"{metrics['seen_pairs']:,} test pairs are training pairs, which are never listed."
        )
