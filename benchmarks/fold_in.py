"""Quality and speed of folding in new users.

    python benchmarks/fold_in.py                                # Gowalla, two cores
    python benchmarks/fold_in.py --models DIR --json fold-in-gowalla.json

A tenth of the users is held out of training and folded in afterwards, by their training items.
Their test metrics are compared with those of the same users in a model that was trained with
them, and with popularity. ``--models`` is a folder to keep the fitted models in.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from densirank import Interactions, Ranker, load
from densirank.data.datasets import PUBLIC_SETS, load_public
from measuring import environment, median_seconds, wait

HELD_OUT = 0.1
ALONE = 200
"""Users who are folded in one by one, to time it."""

VARIANTS: dict[str, dict[str, Any]] = {
    "wd-lgcn": {"method": "wd-lgcn"},
    "wd-lgcn + filter": {"method": "wd-lgcn", "filter_weight": 0.3},
    "pde-lgcn": {"method": "pde-lgcn"},
    "wd-mf": {"method": "wd-mf"},
    "pde-mf": {"method": "pde-mf"},
    "itemknn": {"method": "itemknn"},
}


def of_users(data: Interactions, users: np.ndarray[Any, Any]) -> Interactions:
    """The pairs of these users only, without other ids."""
    ids = set(users.tolist())
    wanted = np.array([user in ids for user in data.user_ids.ids.tolist()])
    return data.select(wanted[data.users]).compact()


def fitted(variant: str, part: str, data: Interactions, device: str, models: Path | None) -> Ranker:
    """A variant with its default settings, from the folder of models if it is there."""
    folder = None if models is None else models / f"{variant.replace(' ', '')}-{part}"
    if folder is not None and (folder / "model.json").exists():
        return load(folder, device)
    ranker = Ranker("wd-lgcn", device=device, **VARIANTS[variant]).fit(data)
    if folder is not None:
        ranker.save(folder)
    return ranker


def milliseconds_alone(ranker: Ranker, people: Interactions, device: str) -> float:
    """The median time of folding in a single user, with one call per user."""
    taken = []
    for user in range(min(ALONE, people.n_users)):
        one = people.select(people.users == user).compact()
        wait(device)
        started = time.perf_counter()
        ranker.fold_in(one)
        wait(device)
        taken.append(time.perf_counter() - started)
    return 1000 * median(taken)


def measure(
    variant: str,
    train: Interactions,
    test: Interactions,
    held_out: np.ndarray[Any, Any],
    device: str,
    models: Path | None,
) -> dict[str, float]:
    """What the held-out users get, by the ways there are."""
    rest = of_users(train, np.setdiff1d(train.user_ids.ids, held_out))
    people, wanted = of_users(train, held_out), of_users(test, held_out)
    trained = fitted(variant, "all", train, device, models)
    without = fitted(variant, "without", rest, device, models)
    folded = without.fold_in(people)
    popular = Ranker("popularity", device=device).fit(rest).fold_in(people)
    ndcg = {
        name: float(ranker.evaluate(wanted, k=20)["ndcg@20"])
        for name, ranker in (("trained", trained), ("folded in", folded), ("popular", popular))
    }
    batched = median_seconds(lambda: without.fold_in(people), 3, device) / people.n_users
    return ndcg | {
        "share of trained": ndcg["folded in"] / ndcg["trained"],
        "ms alone": milliseconds_alone(without, people, device),
        "ms batched": 1000 * batched,
    }


def main() -> None:
    """Measure every variant and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--models", type=Path, help="keep fitted models in this folder")
    parser.add_argument("--seed", type=int, default=0, help="of who is held out")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    train = load_public(given.dataset, "train", given.data_dir)
    test = load_public(given.dataset, "test", given.data_dir)
    shuffled = np.random.default_rng(given.seed).permutation(train.user_ids.ids)
    held_out = shuffled[: round(HELD_OUT * len(shuffled))]
    figures = {
        variant: measure(variant, train, test, held_out, given.device, given.models)
        for variant in given.only
    }
    columns = ("trained", "folded in", "popular", "share of trained", "ms alone", "ms batched")
    table = Table(title=f"nDCG@20 of {len(held_out):,} users of {given.dataset}, {given.device}")
    table.add_column("method")
    for heading in columns:
        table.add_column(heading, justify="right")
    for variant, row in figures.items():
        cells = [f"{row[c]:.2f}" if c.startswith("ms") else f"{row[c]:.4f}" for c in columns]
        table.add_row(variant, *cells)
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "dataset": given.dataset,
            "held out": len(held_out),
            "figures": figures,
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
