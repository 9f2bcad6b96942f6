"""``densirank calibrate``: fit the scale of a model's probabilities and measure them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
    JsonOption,
    MinRating,
    ModelFolder,
    RatingColumn,
    TimestampColumn,
    TimestampFormat,
    UserColumn,
    WeightColumn,
    check_target,
    source_of,
)
from densirank.errors import InputError
from densirank.plotting import can_draw

SHOWN = ("predicted", "frequency", "standard_error", "expected", "observed")


def calibrate(
    *,
    model: ModelFolder,
    data: DataArgument,
    popularity: Annotated[
        bool, typer.Option("--popularity", help="Fit a popularity exponent as well.")
    ] = False,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw predicted against observed probabilities."),
    ] = None,
    bins: Annotated[int, typer.Option(min=1, help="Rows of the table.")] = 10,
    as_json: JsonOption = False,
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
    """Fit the temperature of a model's probabilities to held-out interactions, and store it.

    Lists stay as they are. Prints predicted probabilities and the observed frequencies.
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
    if figure is not None:
        if not can_draw():
            raise InputError("--figure needs matplotlib (pip install 'densirank[plots]')")
        check_target(figure)

    from densirank import load
    from densirank.evaluation.reliability import draw
    from densirank.storage import save_calibration

    ranker = load(model, device)
    held_out = source.interactions(data, "test")
    ranker.calibration_ = None
    tables = {} if figure is None else {"as trained": ranker.reliability(held_out, bins)}
    found = ranker.calibrate(held_out, popularity=popularity).calibration_
    assert found is not None
    table = ranker.reliability(held_out, bins)
    save_calibration(model, found)
    if as_json:
        printing.print_json({"calibration": asdict(found), "reliability": table.to_dicts()})
    else:
        printing.print_table(
            ("probability", *(name.replace("_", " ") for name in SHOWN)),
            (
                (
                    f"up to {row['high']:.2g}",
                    *(f"{row[name]:.3g}" for name in SHOWN[:3]),
                    *(f"{row[name]:,.0f}" for name in SHOWN[3:]),
                )
                for row in table.iter_rows(named=True)
            ),
        )
    printing.err.print(
        f"Temperature {found.temperature:.4f}, popularity exponent "
        f"{found.popularity_exponent:.4f}, fitted to {found.held_out_items:,} held-out items: "
        f"each is {found.gain:.4f} nats more likely than before. Stored in {model}."
    )
    if figure is not None:
        draw(tables | {"calibrated": table}, figure)
        printing.err.print(f"Figure written to {figure}")
