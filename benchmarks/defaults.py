"""The default settings and their neighbours, compared on validation data of the public sets.

    python benchmarks/defaults.py --device cuda --json defaults.json

The last tenth of each user's training items is held out; nothing here reads test data. Each row
changes the default in one respect.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from densirank import Interactions, Ranker
from densirank.data.datasets import load_public
from measuring import environment

DATASETS = ("gowalla", "yelp2018")
HELD_OUT = 0.1
CHANGES: dict[str, list[dict[str, Any]]] = {
    "wd-lgcn": [
        {},
        *({"iterations": count} for count in (40, 60, 200)),
        *({"learning_rate": rate} for rate in (0.1, 0.3)),
        *({"max_norm": bound} for bound in (4.0, 5.0)),
        *({"l2": weight} for weight in (0.01, 0.05)),
        {"decay": 0.5},
        {"candidates": "all"},
        {"users_per_batch": 5000},
        {"optimiser": "adam"},
        {"optimiser": "adam", "learning_rate": 0.15},
        {"optimiser": "adam", "iterations": 500},
    ],
    "wd-mf": [
        {},
        *({"iterations": count} for count in (200, 500)),
        *({"max_norm": bound} for bound in (2.0, 3.0)),
        {"learning_rate": 0.1},
        {"optimiser": "whitened"},
    ],
}


def validated(method: str, change: dict[str, Any], train: Interactions, device: str) -> float:
    """nDCG@20 on the held-out items at the end of the schedule."""
    ranker = Ranker(method, device=device, **change)
    iterations = ranker.spec.settings(**change).iterations
    ranker = Ranker(method, device=device, validate_every=iterations, **change)
    ranker.fit(train, HELD_OUT, valid_split="last")
    return float(ranker.training_["best_validation_ndcg@20"])


def main() -> None:
    """Compare, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    sets = {name: load_public(name, "train", given.data_dir) for name in DATASETS}

    table = Table(title="nDCG@20 on the last tenth of each user's training items")
    for heading in ("method", "change", *DATASETS):
        table.add_column(heading, justify="right" if heading in DATASETS else "left")
    figures = []
    for method, changes in CHANGES.items():
        for change in changes:
            found = {
                name: validated(method, change, train, given.device) for name, train in sets.items()
            }
            said = ", ".join(f"{key} {value}" for key, value in change.items()) or "none"
            print(f"{method}, {said}: {found}", flush=True)
            table.add_row(method, said, *(f"{value:.4f}" for value in found.values()))
            figures.append({"method": method, "change": change, "validation_ndcg@20": found})
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "held_out": HELD_OUT,
            "fingerprint": {name: train.fingerprint for name, train in sets.items()},
            "figures": figures,
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
