"""The whole way in one go, on data whose true densities are known.

Plants p(i|u), lets people draw their items from it, fits WD-LGCN and a popularity baseline to what
they drew, and compares both with the best that anybody could do: ranking by the truth itself.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from densirank import Ranker
from densirank.data.synthetic import Planted, kl_divergence, planted
from densirank.progress import TrainingBar
from densirank.scores import VectorScorer

K = 20
PERSON = 7


def log_density(ranker: Ranker, users: np.ndarray) -> np.ndarray:
    """The fitted f_u(i), which is log p(i|u) up to a constant of the user."""
    scores: np.ndarray = ranker.scorer_.scores(torch.from_numpy(users)).numpy()
    return scores.astype(np.float64)


def oracle(world: Planted) -> Ranker:
    """A ranker that was told the truth: no method can be expected to do better."""
    ranker = Ranker("popularity", device="cpu").fit(world.train)
    ranker.scorer_ = VectorScorer(
        torch.from_numpy(world.user_vectors).float(), torch.from_numpy(world.item_vectors).float()
    )
    return ranker


def main() -> None:
    """Generate, train, compare, recommend."""
    console = Console()
    world = planted(2000, 1000, items_per_user=30, test_items_per_user=10, seed=1)
    console.print(f"A world with known tastes: {world.train!r} to learn from.")

    started = time.perf_counter()
    with TrainingBar(console) as bar:
        ranker = Ranker("wd-lgcn", device="cpu").fit(world.train, callbacks=[bar])
    console.print(f"WD-LGCN trained in {time.perf_counter() - started:.1f} s.")

    recall, ndcg = f"recall@{K}", f"ndcg@{K}"
    table = Table("method", recall, ndcg, "KL to the truth", title="Against the truth")
    rows = {
        "popularity": Ranker("popularity", device="cpu").fit(world.train),
        "wd-lgcn": ranker,
        "best possible": oracle(world),
    }
    for name, fitted in rows.items():
        metrics = fitted.evaluate(world.test, k=K)
        divergence = kl_divergence(world, partial(log_density, fitted))
        table.add_row(name, f"{metrics[recall]:.4f}", f"{metrics[ndcg]:.4f}", f"{divergence:.3f}")
    console.print(table)

    truth = world.log_density(np.array([PERSON]))[0]
    unseen = np.ones(world.train.n_items, dtype=bool)
    unseen[world.train.items_of(PERSON)] = False
    truth = np.exp(truth - np.logaddexp.reduce(truth[unseen]))
    drawn = set(world.test.items_of(PERSON).tolist())
    people = Table("rank", "item", "probability", "true probability", "came next", title="Person 7")
    for row in ranker.recommend(PERSON, k=10).iter_rows(named=True):
        item = row["item_id"]
        people.add_row(
            str(row["rank"]),
            str(item),
            f"{row['probability']:.2%}",
            f"{truth[item]:.2%}",
            "yes" if item in drawn else "",
        )
    console.print(people)


if __name__ == "__main__":
    main()
