"""Updating a model with more data, compared with a new fit.

    python benchmarks/update.py                                 # Gowalla, two cores
    python benchmarks/update.py --models DIR --json update-gowalla.json

A model is fitted to the first nine tenths of the items of 95 % of the users. The rest, which is the
newest items of these users and all items of the others, comes later: the model is updated with it,
or a new model is fitted to all data. Both are measured on the test items of all users.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from densirank import Interactions, Ranker
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.data.splitting import split_last_fraction
from fold_in import VARIANTS, fitted
from measuring import environment, wait

LATER_ITEMS, LATER_USERS = 0.1, 0.05


def split(data: Interactions, seed: int) -> tuple[Interactions, Interactions]:
    """(what is there at first, what comes later)."""
    early, _ = split_last_fraction(data, LATER_ITEMS)
    order = np.random.default_rng(seed).permutation(data.n_users)
    is_late = np.zeros(data.n_users, dtype=bool)
    is_late[order[: round(LATER_USERS * data.n_users)]] = True
    first = (data.positions < early.user_counts[data.users]) & ~is_late[data.users]
    return data.select(first).compact(), data.select(~first).compact()


def measure(
    variant: str,
    train: Interactions,
    test: Interactions,
    seed: int,
    device: str,
    models: Path | None,
    iterations: int | None,
) -> dict[str, dict[str, float]]:
    """nDCG@20 and seconds of the model before, of its update, and of a new fit."""
    there, later = split(train, seed)
    before = fitted(variant, "before", there, device, models)
    wait(device)
    started = time.perf_counter()
    updated = before.update(later, iterations)
    wait(device)
    seconds = time.perf_counter() - started
    again, fit_seconds = timed_fit(variant, train, device, models)
    seen = before.fold_in(train)  # as good as the old model can be, with the new items of people
    return {
        "folded in": {"ndcg@20": _ndcg(seen, test), "seconds": 0.0},
        "updated": {"ndcg@20": _ndcg(updated, test), "seconds": seconds},
        "fitted again": {"ndcg@20": _ndcg(again, test), "seconds": fit_seconds},
    }


def timed_fit(
    variant: str, train: Interactions, device: str, models: Path | None
) -> tuple[Ranker, float]:
    """The model of everything, and how long its training took (as it says itself)."""
    ranker = fitted(variant, "all", train, device, models)
    return ranker, float(ranker.training_.get("seconds", 0.0))


def _ndcg(ranker: Ranker, test: Interactions) -> float:
    return float(ranker.evaluate(test, k=20)["ndcg@20"])


def main() -> None:
    """Measure every variant and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=["wd-lgcn", "wd-mf"])
    parser.add_argument("--iterations", type=int, help="of an update; default: the usual")
    parser.add_argument("--models", type=Path, help="keep fitted models in this folder")
    parser.add_argument("--seed", type=int, default=0, help="of who comes later")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    train = load_public(given.dataset, "train", given.data_dir)
    test = load_public(given.dataset, "test", given.data_dir)
    figures: dict[str, Any] = {
        variant: measure(
            variant, train, test, given.seed, given.device, given.models, given.iterations
        )
        for variant in given.only
    }
    table = Table(title=f"New data on {given.dataset}, {given.device}")
    for heading in ("method", "how", "nDCG@20", "share", "seconds"):
        table.add_column(heading, justify="left" if heading in ("method", "how") else "right")
    for variant, ways in figures.items():
        best = ways["fitted again"]["ndcg@20"]
        for how, row in ways.items():
            ndcg, share = row["ndcg@20"], row["ndcg@20"] / best
            table.add_row(variant, how, f"{ndcg:.4f}", f"{share:.3f}", f"{row['seconds']:.1f}")
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "dataset": given.dataset,
            "figures": figures,
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
