"""Ranking all items for all test users, with metrics: densirank compared with a naive version.

    python benchmarks/evaluation.py                              # Gowalla, two cores
    python benchmarks/evaluation.py --device cuda --json evaluation.json

The naive version processes blocks of users: a matrix product, minus infinity for seen items, topk
over all columns, and a lookup of the lists in a dense table of test items. Both rank by the same
trained vectors and must compute the same metrics.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from densirank import Interactions, Ranker
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.evaluation.held_out import HeldOut
from densirank.linalg.csr import Rows
from densirank.scores import VectorScorer
from measuring import Measurement, environment, in_own_process, median_seconds, peak_mib

K = 20
USERS = 1000
"""Users the obvious way takes at a time."""

VARIANTS = ("obvious", "ours", "matrix product alone")


def vectors(dataset: str, data_dir: Path | None, device: str) -> VectorScorer:
    """Those of a short fit: ranking random vectors would be another problem."""
    ranker = Ranker("wd-lgcn", device=device, iterations=10)
    return ranker.fit(load_public(dataset, "train", data_dir)).scorer_


def obvious(scorer: VectorScorer, train: Interactions, test: Interactions) -> dict[str, float]:
    """Recall and nDCG as one would write them down."""
    seen, relevant = Rows.of(train, scorer.device), Rows.of(test, scorer.device)
    discounts = 1 / torch.log2(torch.arange(2, K + 2, device=scorer.device, dtype=torch.float64))
    recall, ndcg = [], []
    users = (relevant.counts > 0).nonzero().squeeze(1)
    for block in torch.split(users, USERS):
        scores = scorer.user_vectors[block] @ scorer.item_vectors.T
        own, wanted = seen.take(block), relevant.take(block)
        scores[own.row_of_entry, own.columns] = -torch.inf
        best = scores.topk(K, dim=1).indices
        is_wanted = torch.zeros_like(scores, dtype=torch.bool)
        is_wanted[wanted.row_of_entry, wanted.columns] = True
        hits = is_wanted.gather(1, best).double()
        recall.append(hits.sum(1) / wanted.counts)
        ideal = discounts.cumsum(0)[wanted.counts.clamp(max=K) - 1]
        ndcg.append((hits * discounts).sum(1) / ideal)
    return {"recall@20": _mean(recall), "ndcg@20": _mean(ndcg)}


def _mean(parts: list[Tensor]) -> float:
    return float(torch.cat(parts).mean())


def measure(
    variant: str, dataset: str, data_dir: Path | None, device: str, repeats: int
) -> tuple[Measurement, dict[str, float]]:
    """Time one way in this process, and say what it found."""
    scorer = vectors(dataset, data_dir, device)
    train = load_public(dataset, "train", data_dir)
    test = aligned(load_public(dataset, "test", data_dir), train)
    held_out = HeldOut(test, train, scorer.device)
    found: dict[str, float] = {}

    def work() -> None:
        if variant == "ours":
            found.update(held_out.evaluate(scorer, K).summary())
        elif variant == "obvious":
            found.update(obvious(scorer, train, test))
        else:
            for block in torch.split(scorer.user_vectors, USERS):
                torch.mm(block, scorer.item_vectors.T, out=product[: len(block)])

    product = scorer.user_vectors.new_empty(USERS, scorer.n_items)
    before = peak_mib(device)
    seconds = median_seconds(work, repeats, device)
    return Measurement(seconds, peak_mib(device) - before), found


def aligned(test: Interactions, train: Interactions) -> Interactions:
    """The test pairs in the numbering of the training users and items."""
    users = train.user_ids.indices(test.user_ids.ids)[test.users]
    items = train.item_ids.indices(test.item_ids.ids)[test.items]
    return Interactions.from_codes(users, items, train.user_ids, train.item_ids)


def main() -> None:
    """Measure both ways and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    results = {
        variant: in_own_process(
            measure, variant, given.dataset, given.data_dir, given.device, given.repeats
        )
        for variant in VARIANTS
    }
    for metric in ("recall@20", "ndcg@20"):
        ours, other = (results[variant][1][metric] for variant in ("ours", "obvious"))
        if abs(ours - other) > 1e-6:
            sys.exit(f"{metric} differs: {ours} ours, {other} the obvious way")

    table = Table(title=f"All test users of {given.dataset}, {given.device}")
    for heading in ("variant", "seconds", "times ours", "MiB"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for variant, (result, _) in results.items():
        times = result.seconds / results["ours"][0].seconds
        table.add_row(variant, f"{result.seconds:.3f}", f"{times:.2f}", f"{result.extra_mib:,.0f}")
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "dataset": given.dataset,
            "figures": {variant: asdict(result) for variant, (result, _) in results.items()},
            "metrics": results["ours"][1],
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
