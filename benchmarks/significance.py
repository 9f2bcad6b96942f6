"""All pairs of systems compared by permutation: trials in a grid against one after another.

    python benchmarks/significance.py              # 30,000 users × 13 systems × 5,000 trials

Both are the same test, the randomised Tukey HSD; the values are random, since none is faster.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from densirank.evaluation.significance import compare
from measuring import Measurement, in_own_process, median_seconds, peak_mib


def measure(variant: str, users: int, systems: int, trials: int, repeats: int) -> Measurement:
    """Time one way in this process."""
    random = np.random.default_rng(0)
    scores = random.random((users, systems))
    per_user = {str(place): column for place, column in enumerate(scores.T)}

    def work() -> None:
        if variant == "grid":
            compare(per_user, trials)
        else:
            for _ in range(trials):
                np.ptp(random.permuted(scores, axis=1).mean(axis=0))

    before = peak_mib("cpu")
    seconds = median_seconds(work, repeats, "cpu")
    return Measurement(seconds, peak_mib("cpu") - before)


def main() -> None:
    """Measure both ways and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=30_000)
    parser.add_argument("--systems", type=int, default=13)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--repeats", type=int, default=1)
    given = parser.parse_args()
    size = (given.users, given.systems, given.trials)
    table = Table(title="{:,} users × {} systems × {:,} trials".format(*size))
    for heading in ("variant", "seconds", "MiB"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for variant in ("grid", "one after another"):
        result = in_own_process(measure, variant, *size, given.repeats)
        table.add_row(variant, f"{result.seconds:.1f}", f"{result.extra_mib:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
