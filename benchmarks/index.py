"""Single requests with an index compared with exact search: recall, latency, memory, build time.

    python benchmarks/index.py --model DIR                       # a model of your own, two threads
    python benchmarks/index.py --dataset gowalla --json index-gowalla.json
    python benchmarks/index.py --dataset amazon-book-24k --grow 1000000 --json index-million.json

A request is ``ranker.recommend(user, 20)`` for one user, as in a service: seen items are filtered
and a table is returned. Each variant runs in a separate process; its memory is what the index takes
in addition to the loaded model. An existing index of the model is used as it is. Linux only, like
the other memory figures.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from densirank import Ranker, load
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.data.vocabulary import Vocabulary
from densirank.fit import Fitted
from densirank.models.base import ItemSide
from densirank.ranking.index import KINDS
from densirank.scores import VectorScorer
from measuring import environment, forget_peak, in_own_process, peak_mib

K = 20
WARM_UP = 20
"""Requests before those that are timed."""

NOISE = 0.3
"""How far items that are made up lie from the model's own, in differences of two of those."""


@dataclass(frozen=True)
class Figures:
    """What one way of finding the top 20 takes."""

    recall: float  # @20 against exact, over users the index was not tuned by
    effort: int | None
    p50_ms: float
    p99_ms: float
    build_seconds: float
    build_peak_mib: float  # beyond the loaded model, at most
    index_mib: float  # that stay


def measure(folder: Path, way: str, wanted: float, requests: int, threads: int) -> Figures:
    """Build an index in this process, or none for the exact way, and time requests."""
    torch.set_num_threads(threads)
    ranker = load(folder, "cpu")
    forget_peak()
    before = peak_mib("cpu")
    stored = None if ranker.index_ is None else ranker.index_.measured.kind
    if way not in ("exact", stored):
        ranker.build_index(way, recall=wanted)
    built_peak = peak_mib("cpu") - before
    users = np.random.default_rng(1).choice(ranker.interactions_.user_ids.ids, requests + WARM_UP)
    seconds = []
    for user in users:
        started = time.perf_counter()
        ranker.recommend([user], K, approximate=way != "exact")
        seconds.append(time.perf_counter() - started)
    p50, p99 = 1000 * np.percentile(seconds[WARM_UP:], [50, 99])
    measured = None if way == "exact" or ranker.index_ is None else ranker.index_.measured
    return Figures(
        recall=1.0 if measured is None else measured.recall,
        effort=None if measured is None else measured.effort,
        p50_ms=float(p50),
        p99_ms=float(p99),
        build_seconds=0.0 if measured is None else measured.seconds,
        build_peak_mib=built_peak if measured is not None else 0.0,
        index_mib=0.0 if measured is None else measured.mib,
    )


def fit(dataset: str, data_dir: Path | None, folder: Path) -> None:
    """The default model of a public data set."""
    Ranker("wd-lgcn", device="cpu").fit(load_public(dataset, "train", data_dir)).save(folder)


def grow(folder: Path, n_items: int) -> None:
    """The same model with more items, drawn around its own: where trained vectors lie dense.

    A new one is a vector of the model's moved by a part of the difference of two others.
    """
    ranker = load(folder, "cpu")
    own, data = ranker.scorer_.item_vectors, ranker.interactions_
    chance = torch.Generator().manual_seed(0)
    near, one, other = torch.randint(len(own), (3, n_items - len(own)), generator=chance)
    items = torch.cat([own, own[near] + NOISE * (own[one] - own[other])])
    counts = np.concatenate([ranker.items_.counts, np.ones(n_items - len(own), dtype=np.int64)])
    grown = replace(data, item_ids=Vocabulary.from_sorted(np.arange(n_items)))
    scorer = VectorScorer(ranker.scorer_.user_vectors, items)
    ranker._keep(grown, Fitted(scorer, ItemSide(counts))).save(folder)


def main() -> None:
    """Measure the exact way and every kind of index and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path, help="folder of a fitted model")
    source.add_argument("--dataset", choices=sorted(PUBLIC_SETS), help="fit one first")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--grow", type=int, metavar="ITEMS", help="with --dataset: more items")
    parser.add_argument("--ways", nargs="+", choices=("exact", *KINDS), default=["exact", *KINDS])
    parser.add_argument("--recall", type=float, default=0.99, help="what an index is to reach")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = given.model
        if folder is None:
            folder = Path(temporary) / "model"
            in_own_process(fit, given.dataset, given.data_dir, folder)
            if given.grow is not None:
                in_own_process(grow, folder, given.grow)
        results = {
            way: in_own_process(measure, folder, way, given.recall, given.requests, given.threads)
            for way in given.ways
        }
        described = json.loads((folder / "model.json").read_text(encoding="utf-8"))

    data, settings = described["data"], described["settings"]
    table = Table(
        title=f"{described['method']}: {data['items']:,} items × {settings['dim']}, "
        f"{given.threads} threads"
    )
    headings = ("way", "recall@20", "p50 ms", "p99 ms", "build s", "build MiB", "index MiB")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "way" else "right")
    for way, figures in results.items():
        table.add_row(
            way,
            f"{figures.recall:.4f}",
            f"{figures.p50_ms:.2f}",
            f"{figures.p99_ms:.2f}",
            f"{figures.build_seconds:,.1f}",
            f"{figures.build_peak_mib:,.0f}",
            f"{figures.index_mib:,.0f}",
        )
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "model": {
                "method": described["method"],
                "settings": settings,
                "data": data,
            },
            "requests": given.requests,
            "threads": given.threads,
            "figures": {way: asdict(figures) for way, figures in results.items()},
            "environment": environment("cpu"),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
