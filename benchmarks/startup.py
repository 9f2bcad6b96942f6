"""Startup time of help texts, compared with ``import torch``, the largest part of a command's.

python benchmarks/startup.py
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from statistics import median

from rich.console import Console
from rich.table import Table

COMMANDS = {
    "python -c 'import torch'": ["-c", "import torch"],
    "densirank --help": ["-m", "densirank", "--help"],
    "densirank fit --help": ["-m", "densirank", "fit", "--help"],
    "densirank fit LOG (no --out)": ["-m", "densirank", "fit", "log.csv"],
    "densirank methods": ["-m", "densirank", "methods"],
}


def main() -> None:
    """Time them in turns, print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(given.rounds + 1):  # the first one reads files into memory
        for name, words in COMMANDS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *words], capture_output=True, check=False)
            seconds[name].append(time.perf_counter() - started)
    first, *_ = (median(taken[1:]) for taken in seconds.values())
    table = Table("command", "median seconds", "of import torch")
    for name, taken in seconds.items():
        table.add_row(name, f"{median(taken[1:]):.2f}", f"{median(taken[1:]) / first:.2f}")
    Console(markup=False).print(table)


if __name__ == "__main__":
    main()
