"""Automatic fits compared with default settings, searches and baselines, on any data.

    python benchmarks/automatic.py --set ml-100k --set flat --set steep --json automatic.json
    python benchmarks/automatic.py --set clicks.csv --budget 60s --trials 12

None of these data sets was used to choose defaults. ``ml-100k`` is the file distributed with the
package recbole (pip install --no-deps recbole); ``flat`` and ``steep`` are sampled from a density
whose popularity is nearly even or very uneven; anything else is a file. The last fifth of each
user's items is the test set, and all choices are made on the rest.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from densirank import Interactions, Ranker, autofit, read, tune
from densirank.data.splitting import split_last_fraction
from densirank.data.synthetic import planted
from densirank.search import Choices, Range
from measuring import environment

TEST = 0.2
K = 20
SKEWS = {"flat": 0.2, "steep": 1.1}
SIZE = {"n_users": 3000, "n_items": 2000}
SPACE = {
    "max_norm": Range(2.0, 7.0),
    "l2": Range(0.01, 0.2, log=True),
    "base_exponent": Range(0.0, 0.5),
    "filter_weight": Range(0.02, 5.0, log=True),
}
OF_TIME = {"recency": Range(0.0, 5.0), "filter_recency": Range(0.0, 20.0)}
SMALL_DIMS = {"dim": Choices((32, 64, 128, 256))}

Fit = Callable[[Interactions], Ranker]
"""From training data to a ranker."""


@dataclass(frozen=True)
class Figure:
    """What a way to a model reached, and in how many seconds, choosing included."""

    way: str
    recall: float
    ndcg: float
    seconds: float
    chosen: dict[str, Any]


def data_set(name: str, seed: int) -> Interactions:
    """A set by its name, or the interactions of a file."""
    if name in SKEWS:
        return planted(
            **SIZE, rank=12, items_per_user=30, popularity_exponent=SKEWS[name], seed=seed
        ).train
    if name == "ml-100k" and not Path(name).exists():
        package = find_spec("recbole")
        if package is None or package.origin is None:
            sys.exit("ml-100k is in the package recbole, which is not installed; or name a file")
        name = str(Path(package.origin).parent / "dataset_example" / "ml-100k" / "ml-100k.inter")
    return read(name)


def tuned(method: str, space: dict[str, Any], trials: int, run: dict[str, Any]) -> Fit:
    """Search, then fit the best to all of the training part."""

    def fit(train: Interactions) -> Ranker:
        study = tune(train, method, space, trials=trials, **run)
        return Ranker(method, **run, **study.settings).fit(train)

    return fit


def ways(data: Interactions, given: argparse.Namespace) -> dict[str, Fit]:
    """What is compared: a name, and how it comes from training data to a ranker."""
    run: dict[str, Any] = {"seed": given.seed, "device": given.device}

    def plainly(method: str) -> Fit:
        return lambda train: Ranker(method, **run).fit(train)

    space = SPACE | SMALL_DIMS | (OF_TIME if data.ordered else {})
    compared = {
        f"automatic, {given.budget}": lambda train: autofit(train, given.budget, **run),
        **{method: plainly(method) for method in ("popularity", "itemknn", "ease", "wd-lgcn")},
        "densirank": plainly("densirank"),
        f"densirank, {given.trials} trials": tuned("densirank", space, given.trials, run),
    }
    if find_spec("implicit") is not None:
        als = {
            "confidence": Range(1.0, 200.0, log=True),
            "l2": Range(0.01, 500.0, log=True),
            "dim": Choices((32, 64, 128, 256)),
        }
        compared[f"als, {given.trials} trials"] = tuned("als", als, given.trials, run)
    return compared


def measured(way: str, fit: Fit, train: Interactions, test: Interactions) -> Figure:
    """One way, with the clock on it."""
    started = time.perf_counter()
    ranker = fit(train)
    seconds = time.perf_counter() - started
    reached = ranker.evaluate(test, K)
    chosen = {"method": ranker.method, **ranker.settings_.to_json()}
    return Figure(way, reached[f"recall@{K}"], reached[f"ndcg@{K}"], seconds, chosen)


def main() -> None:
    """Compare, print a table a set, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", required=True, help="a name or a file")
    parser.add_argument("--budget", default="60s")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--only", action="append", help="ways that begin with this, and no others")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    sets = []
    for name in given.set:
        data = data_set(name, given.seed)
        train, test = split_last_fraction(data, TEST)
        table = Table("way", f"recall@{K}", f"nDCG@{K}", "seconds", title=f"{name}: {data}")
        figures = []
        for way, fit in ways(data, given).items():
            if given.only and not way.startswith(tuple(given.only)):
                continue
            figure = measured(way, fit, train, test)
            print(
                f"{name}, {way}: nDCG@{K} {figure.ndcg:.4f} in {figure.seconds:.0f} s", flush=True
            )
            table.add_row(
                way, f"{figure.recall:.4f}", f"{figure.ndcg:.4f}", f"{figure.seconds:.1f}"
            )
            figures.append(asdict(figure))
        Console().print(table)
        sets.append({"set": name, "fingerprint": data.fingerprint, "figures": figures})
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "seed": given.seed,
            "test": TEST,
            "sets": sets,
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
