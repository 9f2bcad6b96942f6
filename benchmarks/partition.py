"""Partitioning a log larger than memory by user: time and peak memory.

    python benchmarks/partition.py                   # a million users and items, 100 million rows
    python benchmarks/partition.py --users 20000 --items 20000 --interactions 1000000

A power-law log is partitioned in a separate process, to measure its peak memory. Another process
then reads the share of one of several processes, as it would for training.

Linux only: the kernel's peak memory of a process is read and reset.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.table import Table

from densirank.data.columns import Columns
from densirank.parallel.parquet_log import Log
from densirank.parallel.partition import Partition
from densirank.parallel.partitioning import write_partition
from densirank.world import World
from measuring import environment, in_own_process
from powerlaw import Size
from scale import Stage, folder_or_temporary, tell_stage, watched, write_log, write_record


def cut(log: Path, folder: Path, parts: int) -> tuple[Partition, Stage]:
    """Cut the log."""
    return watched(
        f"cut it into {parts} parts",
        lambda: write_partition(Log.open(log, Columns()), folder, parts),
    )


def read_part(folder: Path, parts: int) -> tuple[int, Stage]:
    """Read the share of the first of several processes."""
    partition = Partition.open(folder)
    users = World(size=parts).own(partition.n_users)
    data, stage = watched(f"read the part of 1 of {parts}", lambda: partition.only(users))
    return len(data), stage


def measure(log: Path, folder: Path, parts: int) -> dict[str, Any]:
    """Cut, then read a part back."""
    partition, cutting = in_own_process(cut, log, folder, parts)
    tell_stage(cutting)
    pairs, reading = in_own_process(read_part, folder, parts)
    tell_stage(reading)
    return {
        "users": partition.n_users,
        "items": partition.n_items,
        "pairs": partition.n_pairs,
        "parts": parts,
        "pairs_of_the_part": pairs,
        "log_mib": log.stat().st_size / 2**20,
        "partition_mib": sum(file.stat().st_size for file in folder.iterdir()) / 2**20,
        "stages": [asdict(cutting), asdict(reading)],
    }


def table_of(size: Size, figures: dict[str, Any]) -> Table:
    """What both took."""
    table = Table("stage", "seconds", "MiB before", "MiB at most", title=str(size))
    for stage in figures["stages"]:
        numbers = (f"{stage[name]:,.1f}" for name in ("seconds", "before_mib", "peak_mib"))
        table.add_row(stage["name"], *numbers)
    table.caption = (
        f"the log takes {figures['log_mib']:,.0f} MiB on disk, the partition "
        f"{figures['partition_mib']:,.0f}"
    )
    return table


def main() -> None:
    """Measure, print a table, and write a record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--interactions", type=int, default=100_000_000)
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--folder", type=Path, help="where the log is kept (else: nowhere)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    size = Size(given.users, given.items, given.interactions)
    if problem := size.problem():
        parser.error(problem)
    with folder_or_temporary(given.folder) as kept:
        log = Path(kept) / f"powerlaw-{size.users}-{size.items}-{size.interactions}.parquet"
        if not log.exists():
            tell_stage(in_own_process(write_log, log, size))
        with TemporaryDirectory(dir=kept) as folder:
            figures = measure(log, Path(folder), given.parts)
    Console().print(table_of(size, figures))
    command = shlex.join(["python", *sys.argv])
    write_record(
        given.json, {"command": command, "environment": environment("cpu"), "large": figures}
    )


if __name__ == "__main__":
    main()
