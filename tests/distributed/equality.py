"""The fits that ``test_fitting.py`` compares: ``python equality.py FOLDER`` writes their models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from company import together

from densirank import Interactions, Ranker
from densirank.data.synthetic import planted
from densirank.distributed.engine import engine_of
from densirank.distributed.group import World

DATA = planted(150, 90, items_per_user=10, test_items_per_user=3, seed=5)
FEW = Interactions.from_pairs([1, 1, 2, 2, 3, 3], [1, 2, 2, 3, 3, 1])
"""Three users: of four processes, one has no users, and of two batches, one has none of a rank."""

SETTINGS: dict[str, Any] = {"dim": 12, "iterations": 50, "users_per_batch": 64}


def cases() -> Iterator[tuple[str, Interactions, float | None, str, dict[str, Any]]]:
    """(name, data, validation, method, settings)"""
    for method in ("wd-mf", "wd-lgcn"):
        for optimiser in ("adam", "whitened"):
            yield f"{method}-{optimiser}", DATA.train, None, method, {"optimiser": optimiser}
    yield "sampled", DATA.train, None, "pde-mf", {"candidates": 40}
    yield "all", DATA.train, None, "mle-lgcn", {"candidates": "all", "inference_layers": 2}
    weighted = {"user_exponent": 0.5, "base_exponent": 0.5, "candidate_correction": 0.5}
    yield "weighted", DATA.train, None, "wd-mf", weighted
    validated = {"validate_every": 5, "patience": 3, "filter_weight": 0.3}
    yield "validated", DATA.train, 0.2, "wd-lgcn", validated
    yield "few", FEW, None, "wd-lgcn", {"users_per_batch": 1}


def main(folder: Path) -> None:
    def work(world: World) -> None:
        for name, data, valid, method, settings in cases():
            ranker = Ranker(method, device="cpu", **(SETTINGS | settings))
            ranker.fit(data, valid, engine=engine_of(world if world.size > 1 else World.alone()))
            if world.first:
                ranker.save(folder / f"{name}-{world.size}")

    for n in (1, 2, 4):
        statuses = together(n, work)
        assert statuses == [0] * n, statuses


if __name__ == "__main__":
    main(Path(sys.argv[1]))
