"""Choose settings on validation data over the paper's grid, then test once, on several seeds.

The last fifth of each user's training items is held out. From a fixed start, the search climbs
over the grid of the paper (λ, n̄, and some of its learning rates): try all neighbours of the best
setting so far, move to the best of them, stop when none is better. The winner, with the number of
iterations that validation found best, is trained on all training data and tested, once a seed.

    python benchmarks/quality.py --dataset gowalla --out gowalla.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch

from densirank import Interactions, Ranker, __version__
from densirank.data.catalogue import PUBLIC_SETS, load_public

GRID: dict[str, tuple[float, ...]] = {
    "learning_rate": (0.01, 0.02, 0.05, 0.1),
    "l2": (0.01, 0.05, 0.1),
    "max_norm": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
}
START = {"learning_rate": 0.05, "l2": 0.05, "max_norm": 4.0}
FIXED: dict[str, Any] = {"iterations": 3000, "patience": 5, "validate_every": 100}
PUBLISHED = {  # R@20 / nDCG@20, Togashi et al. 2021, Table 2
    ("gowalla", "pde-lgcn"): (0.1871, 0.1575),
    ("gowalla", "wd-lgcn"): (0.1859, 0.1567),
    ("yelp2018", "pde-lgcn"): (0.0706, 0.0582),
    ("yelp2018", "wd-lgcn"): (0.0719, 0.0594),
}


def neighbours(setting: dict[str, float]) -> Iterator[dict[str, float]]:
    """The settings one step away on the grid."""
    for key, values in GRID.items():
        place = values.index(setting[key])
        for other in (place - 1, place + 1):
            if 0 <= other < len(values):
                yield setting | {key: values[other]}


def validate(
    method: str,
    candidates: Literal["batch", "all"],
    train: Interactions,
    held_out: float,
    setting: dict[str, float],
) -> dict[str, Any]:
    """Fit with the last items of each user held out; only training data comes in here."""
    ranker = Ranker(method, candidates=candidates, **FIXED, **setting)
    ranker.fit(train, held_out, valid_split="last")
    record = ranker.training_
    return {
        **setting,
        "iterations": record["best_iteration"],
        "validation_ndcg@20": record["best_validation_ndcg@20"],
        "seconds": round(record["seconds"], 2),
    }


def search(
    method: str, candidates: Literal["batch", "all"], train: Interactions, held_out: float
) -> list[dict[str, Any]]:
    """Climb from the start until no neighbour is better; every trial, the best one first."""
    trials: dict[tuple[float, ...], dict[str, Any]] = {}
    here, moved = START, True
    while moved:
        for setting in (here, *neighbours(here)):
            key = tuple(setting.values())
            if key not in trials:
                trials[key] = validate(method, candidates, train, held_out, setting)
                print(trials[key], flush=True)
        best = max(trials.values(), key=lambda trial: trial["validation_ndcg@20"])
        there = {key: best[key] for key in GRID}
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
    parser.add_argument("--candidates", choices=("batch", "all"), default="batch")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    train = load_public(options.dataset, "train", options.data_dir)
    started = time.perf_counter()
    trials = search(options.method, options.candidates, train, options.held_out)
    chosen = {key: trials[0][key] for key in (*GRID, "iterations")}
    chosen["candidates"] = options.candidates
    search_seconds = time.perf_counter() - started

    fitted = []
    for seed in range(options.seeds):
        ranker = Ranker(options.method, seed=seed, **chosen).fit(train)
        fitted.append((seed, ranker, ranker.training_["seconds"]))
    test = load_public(options.dataset, "test", options.data_dir)  # read only now
    runs = [
        {"seed": seed, "training_seconds": round(seconds, 2), **ranker.evaluate(test)}
        for seed, ranker, seconds in fitted
    ]
    device = fitted[0][1].scorer_.device
    record = {
        "command": f"python benchmarks/quality.py --dataset {options.dataset} "
        f"--method {options.method} --candidates {options.candidates} "
        f"--held-out {options.held_out} --seeds {options.seeds}",
        "dataset": options.dataset,
        "fingerprint": {"train": train.fingerprint, "test": test.fingerprint},
        "method": options.method,
        "search": {"start": START, "grid": GRID, **FIXED},
        "chosen": chosen,
        "runs": runs,
        "published": PUBLISHED.get((options.dataset, options.method)),
        "search_seconds": round(search_seconds, 1),
        "trials": trials,
        "versions": {
            "densirank": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor(),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")

    print(f"{options.dataset} {options.method}: {len(trials)} trials, chosen {chosen}")
    for run in runs:
        print(f"  seed {run['seed']}: {run['recall@20']:.4f}/{run['ndcg@20']:.4f}")
    print(f"  published: {record['published']}")


if __name__ == "__main__":
    main()
