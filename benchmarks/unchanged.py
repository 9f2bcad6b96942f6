"""Regression check: compare the results of all methods before and after a change.

    git worktree add /tmp/before COMMIT
    PYTHONPATH=/tmp/before/src python benchmarks/unchanged.py record /tmp/answers
    python benchmarks/unchanged.py compare /tmp/answers

Every method is fitted to two small logs, one with an order of time and weights. Its
recommendations, densities, draws, metrics, explanations, fold-in, update and saved arrays are
compared number by number, on a CPU. Names, hashes and times of files are not compared.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table
from safetensors.numpy import load_file

from densirank import METHODS, Interactions, Ranker, load, read
from densirank.data.synthetic import planted
from densirank.errors import DensirankError

ROUNDING = 1e-5
TRAINED = {"dim": 8, "iterations": 8, "users_per_batch": 32}
NOT_COMPARED = {"created", "seconds", "name", "sha256", "bytes", "densirank", "torch", "version"}
"""Keys of what is saved that differ from one run, or one release, to the next."""

Answers = dict[str, np.ndarray]


def logs() -> dict[str, tuple[Interactions, Interactions]]:
    """(what is learnt, what is held out) by name."""
    world = planted(60, 45, items_per_user=8, test_items_per_user=3, seed=2)
    rows = np.arange(len(world.train))
    timed = pl.DataFrame(
        {
            "user": world.train.users,
            "item": world.train.items,
            "timestamp": 1_700_000_000 + (rows * 7919) % 5003,
            "weight": 1.0 + rows % 3,
        }
    )
    return {
        "plain": (world.train, world.test),
        "timed": (read(timed), world.test),
    }


def answers(method: str, train: Interactions, test: Interactions) -> Answers:
    """All that a method says, by name."""
    given: dict[str, Any] = TRAINED if METHODS[method].risk is not None else {}
    if method == "als":
        given = {"dim": 8, "iterations": 2}
    ranker = Ranker(method, device="cpu", seed=1, **given).fit(train)
    found: Answers = {}
    for name, answer in _asked(ranker, test):
        try:
            found |= _flat(name, answer())
        except DensirankError as error:
            found |= _flat(
                name, type(error).__name__
            )  # refused: sentences may be put in other words
    with TemporaryDirectory() as folder:
        ranker.save(folder)
        found |= _saved(Path(folder))
        found |= _flat("loaded", load(folder, "cpu").recommend(k=5))
    return found


def _asked(ranker: Ranker, test: Interactions) -> Iterator[tuple[str, Any]]:
    some = ranker.interactions_.user_ids.ids[:7].tolist()
    items = ranker.interactions_.item_ids.ids[::2].tolist()
    later = Interactions.from_pairs([some[0], 9_999], [items[5], items[3]], ordered=True)
    yield "recommend", lambda: ranker.recommend(k=7)
    yield "recommend-some", lambda: ranker.recommend(some, 4, items=items, exclude=items[:2])
    yield "recommend-seen", lambda: ranker.recommend(some, 4, filter_seen=False)
    yield "recommend-anybody", lambda: ranker.recommend([*some, 10_000], 4, unknown="popular")
    yield "density", lambda: ranker.density(some).log_probabilities
    yield "entropy", lambda: ranker.entropy(some)
    yield "sample", lambda: ranker.sample(some, 5, seed=3, temperature=0.7)
    yield "similar", lambda: ranker.similar_items(items[0], 5)
    yield "evaluate", lambda: ranker.evaluate(test, 5)
    yield "fold_in", lambda: ranker.fold_in([(1, item) for item in items[:4]]).recommend(k=5)
    yield "explain", lambda: ranker.explain(some[0], items[-1])
    yield (
        "update",
        lambda: ranker.update(later, 3).recommend(k=5),
    )
    yield "calibrate", lambda: ranker.calibrate(test).recommend(some, 4)
    yield "reliability", lambda: ranker.reliability(test)


def _saved(folder: Path) -> Answers:
    found: Answers = {}
    for path in sorted(folder.iterdir()):
        role = path.name.partition("-")[0]
        if path.suffix == ".safetensors":
            found |= {f"saved/{role}/{name}": part for name, part in load_file(path).items()}
        elif path.suffix == ".parquet":
            found |= _flat(f"saved/{role}", pl.read_parquet(path, glob=False))
        elif path.suffix == ".json":
            found |= _flat(f"saved/{role}", json.loads(path.read_text()))
    return found


def _flat(name: str, answer: Any) -> Answers:
    """An answer as arrays, each under its own name."""
    if isinstance(answer, pl.DataFrame):
        answer = {column: answer[column].to_numpy() for column in answer.columns}
    if isinstance(answer, dict):
        parts = {k: v for k, v in answer.items() if k not in NOT_COMPARED}
        return {
            n: p for key, value in parts.items() for n, p in _flat(f"{name}/{key}", value).items()
        }
    if isinstance(answer, list) and any(isinstance(part, dict) for part in answer):
        return _flat(name, dict(enumerate(answer)))
    array = np.asarray(answer)
    return {name: array.astype(str) if array.dtype == object else array}


def _settings_of_others(before: Iterable[str], now: Answers) -> set[str]:
    """Settings that were saved with every method once; now a method saves its own."""
    return {name for name in before if "/settings/" in name and name not in now}


def difference(before: np.ndarray | None, after: np.ndarray | None) -> float:
    """0 where equal to the last bit, infinite where no numbers of the same shape."""
    if before is None or after is None or before.shape != after.shape:
        return float("inf")
    if np.array_equal(before, after, equal_nan=before.dtype.kind == "f"):
        return 0.0
    if before.dtype.kind not in "fiu" or after.dtype.kind not in "fiu":
        return float("inf")
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    gap = np.where(same, 0, np.abs(before.astype(float) - after.astype(float)))
    return float(np.nan_to_num(gap, nan=np.inf).max())


def main() -> None:
    """Record, or compare and print what differs; end with 1 if more than rounding does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    table = Table("method", "log", "answer", "largest difference")
    compared, worst = 0, 0.0
    for method in given.methods:
        for log, (train, test) in logs().items():
            path = given.folder / f"{method}-{log}.npz"
            now = answers(method, train, test)
            if given.what == "record":
                np.savez(path, **now)  # type: ignore[arg-type]
                continue
            with np.load(path) as before:
                for name in sorted({*before.files, *now} - _settings_of_others(before.files, now)):
                    gap = difference(before.get(name), now.get(name))
                    compared, worst = compared + 1, max(worst, gap)
                    if gap > 0:
                        table.add_row(method, log, name, f"{gap:.2g}")
    if given.what == "compare":
        console = Console(markup=False)
        console.print(table)
        console.print(f"{compared:,} answers, largest difference {worst:.2g}")
    sys.exit(worst > ROUNDING)


if __name__ == "__main__":
    main()
