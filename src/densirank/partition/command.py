"""``densirank partition``: cut a log that is larger than memory into parts by user."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import TimeRemainingColumn

from densirank.data.columns import Columns
from densirank.options import (
    ItemColumn,
    OrderedOption,
    TimestampColumn,
    UserColumn,
    WeightColumn,
    err,
)
from densirank.progress import Bars


def partition(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="A Parquet file, or a folder of such files.")
    ],
    out_dir: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the partition.")
    ],
    parts: Annotated[
        int, typer.Option(min=1, help="How many parts: as many as processes will share it.")
    ] = 1,
    ordered: OrderedOption = False,
    user_column: UserColumn = None,
    item_column: ItemColumn = None,
    timestamp_column: TimestampColumn = None,
    weight_column: WeightColumn = None,
) -> None:
    """Cut a log that may be larger than memory into parts by user, one for each process.

    The files of a folder are read in the order of their names. Equal pairs count once, the latest
    one, and each user's items are put in order of time, as when a file is read at once.
    """
    from densirank.partition.log import Log  # with polars, which other commands do without
    from densirank.partition.writing import write_partition

    columns = Columns(user_column, item_column, timestamp_column, weight_column)
    with RowsBar() as bar:
        made = write_partition(
            Log.open(log, columns), out_dir, parts, ordered=ordered, on_rows=bar.rows
        )
    largest = max(part.pairs for part in made.parts)
    err.print(
        f"{made.n_users:,} users, {made.n_items:,} items, {made.n_pairs:,} pairs in {parts:,} "
        f"parts, the largest of {largest:,} pairs, written to {out_dir}",
        highlight=False,
        soft_wrap=True,
    )


class RowsBar(Bars):
    """A bar of the rows that have been read."""

    def __init__(self) -> None:
        super().__init__(err, TimeRemainingColumn())
        self._task = self._progress.add_task("rows", total=None, status="")

    def rows(self, done: int, rows: int) -> None:
        """So many rows of so many have been read."""
        self._progress.update(self._task, completed=done, total=rows)
