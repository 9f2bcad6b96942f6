"""``densirank update``: continue the training of a model with new interactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import (
    DataArgument,
    DataDirOption,
    DeviceOption,
    EventColumn,
    EventWeights,
    FormatOption,
    ItemColumn,
    MinRating,
    ModelFolder,
    OrderedOption,
    OutFolder,
    OverwriteOption,
    RatingColumn,
    TimestampColumn,
    TimestampFormat,
    UserColumn,
    WeightColumn,
    reading_sentence,
    source_of,
)
from densirank.progress import TrainingBar

if TYPE_CHECKING:
    from densirank.data.interactions import Interactions

SUSPICIOUS_FACTOR = 300
"""Of two times: seconds, milliseconds and microseconds since 1970 differ by 1,000."""


def update(
    *,
    model: ModelFolder,
    data: DataArgument,
    out_dir: OutFolder,
    iterations: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps. Default: half as many as in the fit."),
    ] = None,
    overwrite: OverwriteOption = False,
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
) -> None:
    """Continue the training of a model with new interactions, users and items."""
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
    from densirank import load
    from densirank.parallel.fit_folder import check_overwrite
    from densirank.storage import prepare_folder, stored_metrics

    check_overwrite(out_dir, overwrite)
    ranker = load(model, device)
    metrics = stored_metrics(model)  # before --out, which may be the same folder
    new = source.interactions(data, "train")
    printing.err.print(reading_sentence(new, "none"))
    if (factor := _factor_of_times(ranker.interactions_, new)) > SUSPICIOUS_FACTOR:
        printing.say_warning(
            f"the times of the new interactions and those of the model differ by a factor of "
            f"{factor:,.0f}: if they are in different units (dates are read as microseconds), the "
            "order of time is wrong"
        )
    prepare_folder(out_dir)
    with TrainingBar(printing.err) as bar:
        updated = ranker.update(new, iterations, callbacks=[bar])
    if updated.training_.get("interrupted"):
        printing.err.print("Interrupted: nothing was written.")
        raise typer.Exit(printing.INTERRUPTED)
    updated.save(out_dir)
    before, after = ranker.interactions_, updated.interactions_
    for sentence in _what_was_lost(before, new, after):
        printing.say_warning(sentence)
    if metrics is not None:
        printing.say_warning(
            "the stored metrics were measured before the update and are not kept: run "
            "'densirank evaluate --keep' again"
        )
    printing.err.print(
        f"{len(after) - len(before):,} new pairs, {after.n_users - before.n_users:,} new users, "
        f"{after.n_items - before.n_items:,} new items. Model written to {out_dir}."
    )


def _factor_of_times(before: Interactions, new: Interactions) -> float:
    """How many times larger the times of one side are, if they are merged by time."""
    times = [part.timestamps for part in (before, new) if part.timestamps is not None]
    sizes = [max(float(abs(column).max()), 1.0) for column in times]
    return max(sizes) / min(sizes) if len(sizes) == 2 else 1.0


def _what_was_lost(before: Interactions, new: Interactions, after: Interactions) -> Iterator[str]:
    """What one side knew and both together do not."""
    if before.ordered and not after.ordered:
        yield (
            "the order of time is no longer known: the new interactions have none (say --ordered "
            "if the rows of each user are in order of time)"
        )
    if after.timestamps is None and (before.timestamps is None) != (new.timestamps is None):
        which = "the model's" if before.timestamps is None else "the new"
        yield f"no timestamps are kept: {which} interactions have none"
