"""``densirank partition``: split a log that is larger than memory into parts by user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from densirank.cli import printing
from densirank.cli.options import (
    ItemColumn,
    OrderedOption,
    TimestampColumn,
    UserColumn,
    WeightColumn,
    columns_sentence,
    order_sentence,
)


def partition(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="A Parquet file, or a folder of such files.")
    ],
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the partition.")
    ],
    parts: Annotated[
        int, typer.Option(min=1, help="Number of parts, usually that of the processes.")
    ] = 1,
    ordered: OrderedOption = None,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    timestamp_column: TimestampColumn = None,
    weight_column: WeightColumn = None,
) -> None:
    """Split a log that may be larger than memory into parts by user, one for each process.

    The files of a folder are read in the order of their names. Repeated pairs count once, at their
    latest occurrence, and the items of a user are sorted by time, as when a file is read at once.
    """
    from densirank.data.columns import Columns
    from densirank.data.interactions import Reading
    from densirank.parallel.parquet_log import Log
    from densirank.parallel.partitioning import write_partition

    columns = Columns(user_column, item_column, timestamp_column, weight_column)
    with printing.CountBar("rows") as bar:
        opened = Log.open(log, columns)
        made = write_partition(opened, out_dir, parts, ordered=ordered, on_rows=bar.done)
    order = "timestamps" if "timestamp" in opened.columns else "said"
    reading = Reading(opened.columns, opened.unused, order if made.ordered else None)
    printing.err.print(f"{columns_sentence(reading)} {order_sentence(reading)}")
    largest = max(part.pairs for part in made.parts)
    printing.err.print(
        f"{made.n_users:,} users, {made.n_items:,} items, {made.n_pairs:,} pairs in {parts:,} "
        f"parts, the largest of {largest:,} pairs, written to {out_dir}"
    )
