"""Choose settings on validation data over a grid, then test once, on several seeds.

The last items of each user's training row are held out. From a fixed start, the search climbs
over a grid of λ, n̄ and learning rates: try all neighbours of the best setting so far, move to the
best of them, stop when none is better. The winner, with the number of iterations that validation
found best, is trained on all training data and tested, once a seed.

    python benchmarks/quality.py --dataset gowalla --out gowalla.json        # the paper's grid

A schedule that ends with a falling learning rate has a fixed length, so it is validated at its end
alone; the grid is finer there, and there is one more question, half precision or not:

    python benchmarks/quality.py --dataset gowalla --out gowalla.json --grid fine \\
        --start 0.1 0.02 4.5 --iterations 500 --validate-every 500 \\
        --set optimiser=whitened --set users_per_batch=5000 --set decay=1 \\
        --precision half float32
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from densirank import Interactions, Ranker
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.methods import method_named
from measuring import environment

Grid = dict[str, tuple[float, ...]]
GRIDS: dict[str, Grid] = {
    "paper": {
        "learning_rate": (0.01, 0.02, 0.05, 0.1),
        "l2": (0.01, 0.05, 0.1),
        "max_norm": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
    },
    "fine": {
        "learning_rate": (0.05, 0.1, 0.2),
        "l2": (0.005, 0.01, 0.02, 0.05),
        "max_norm": (3.5, 4.0, 4.5, 5.0, 5.5),
    },
}
KEYS = tuple(key.upper() for key in GRIDS["paper"])
PUBLISHED = {  # R@20 / nDCG@20, Togashi et al. 2021, Table 2
    ("gowalla", "pde-lgcn"): (0.1871, 0.1575),
    ("gowalla", "wd-lgcn"): (0.1859, 0.1567),
    ("yelp2018", "pde-lgcn"): (0.0706, 0.0582),
    ("yelp2018", "wd-lgcn"): (0.0719, 0.0594),
}


def neighbours(grid: Grid, setting: dict[str, float]) -> Iterator[dict[str, float]]:
    """The settings one step away on the grid."""
    for key, values in grid.items():
        place = values.index(setting[key])
        for other in (place - 1, place + 1):
            if 0 <= other < len(values):
                yield setting | {key: values[other]}


@dataclass(frozen=True)
class Search:
    """What is searched and how long each trial may take; only training data comes in here."""

    method: str
    held_out: float
    grid: Grid
    start: dict[str, float]
    fixed: dict[str, Any]

    def validate(self, train: Interactions, setting: dict[str, float]) -> dict[str, Any]:
        """Fit with the last items of each user held out."""
        settings: dict[str, Any] = {**self.fixed, **setting}
        ranker = Ranker(self.method, **settings)
        ranker.fit(train, self.held_out, valid_split="last")
        record = ranker.training_
        return {
            **setting,
            "iterations": record["best_iteration"],
            "validation_ndcg@20": record["best_validation_ndcg@20"],
            "seconds": round(record["seconds"], 2),
        }

    def run(self, train: Interactions) -> list[dict[str, Any]]:
        """Climb from the start until no neighbour is better; every trial, the best one first."""
        trials: dict[tuple[float, ...], dict[str, Any]] = {}
        here, moved = self.start, True
        while moved:
            for setting in (here, *neighbours(self.grid, here)):
                key = tuple(setting.values())
                if key not in trials:
                    trials[key] = self.validate(train, setting)
                    print(trials[key], flush=True)
            best = max(trials.values(), key=lambda trial: trial["validation_ndcg@20"])
            there = {key: best[key] for key in self.grid}
            moved, here = there != here, there
        return sorted(trials.values(), key=lambda trial: -trial["validation_ndcg@20"])


def main() -> None:
    """Search, test, write the record and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), required=True)
    parser.add_argument("--method", default="wd-lgcn")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument(
        "--held-out", type=float, default=0.2, help="last share of each user's items"
    )
    parser.add_argument("--grid", choices=sorted(GRIDS), default="paper")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting")
    parser.add_argument(
        "--precision", nargs="+", default=["auto"], help="of the runs that are tested"
    )
    parser.add_argument("--start", type=float, nargs=3, default=[0.05, 0.05, 4.0], metavar=KEYS)
    parser.add_argument("--iterations", type=int, default=3000, help="the most a trial makes")
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--validate-every", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    train = load_public(options.dataset, "train", options.data_dir)
    given = method_named(options.method).settings_type.parse(
        dict(pair.split("=", 1) for pair in options.set)
    )
    fixed = {
        "iterations": options.iterations,
        "patience": options.patience,
        "validate_every": options.validate_every,
        **given,
    }
    grid = GRIDS[options.grid]
    start = dict(zip(grid, options.start, strict=True))
    started = time.perf_counter()
    trials = Search(options.method, options.held_out, grid, start, fixed).run(train)
    search_seconds = time.perf_counter() - started
    chosen = {**given, **{key: trials[0][key] for key in (*grid, "iterations")}}

    fitted = []
    for precision in options.precision:
        for seed in range(options.seeds):
            ranker = Ranker(options.method, seed=seed, precision=precision, **chosen).fit(train)
            fitted.append(({"precision": precision, "seed": seed}, ranker))
    test = load_public(options.dataset, "test", options.data_dir)  # read only now
    runs = [
        {
            **run,
            "training_seconds": round(ranker.training_["seconds"], 3),
            **ranker.evaluate(test),
        }
        for run, ranker in fitted
    ]
    device = fitted[0][1].scorer_.device
    record = {
        "command": shlex.join(["python", *sys.argv]),
        "dataset": options.dataset,
        "fingerprint": {"train": train.fingerprint, "test": test.fingerprint},
        "method": options.method,
        "search": {"start": start, "grid": grid, "held_out": options.held_out, **fixed},
        "chosen": chosen,
        "runs": runs,
        "published": PUBLISHED.get((options.dataset, options.method)),
        "search_seconds": round(search_seconds, 1),
        "trials": trials,
        "environment": environment(device.type),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    print(f"{options.dataset} {options.method}: {len(trials)} trials, chosen {chosen}")
    for run in runs:
        print(
            f"  {run['precision']}, seed {run['seed']}: {run['recall@20']:.4f}/{run['ndcg@20']:.4f}"
            f" after {run['training_seconds']:.2f} s"
        )
    print(f"  published: {record['published']}")


if __name__ == "__main__":
    main()
