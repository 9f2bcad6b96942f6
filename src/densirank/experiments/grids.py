"""Which settings are tried for each method: small searches in stages, since time is scarce.

The first trial is the start: the method's own defaults with ``fixed`` on top. A stage varies some
keys around the best trial so far. All methods look at the same validation data, and none is given
more than some twenty trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Stage = Mapping[str, tuple[Any, ...]]

QUICK_ITERATIONS = 5


@dataclass(frozen=True)
class Grid:
    """How a method's settings are searched, and with which seeds the winner is run."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)

    def quick(self) -> Grid:
        """One trial, one seed and few iterations: to see that everything works."""
        return replace(
            self,
            fixed={**self.fixed, "iterations": QUICK_ITERATIONS},
            stages=(),
            seeds=self.seeds[:1],
        )


EARLY_STOPPED: Mapping[str, Any] = {
    "decay": 0.0,
    "iterations": 4000,
    "validate_every": 100,
    "patience": 5,
}
"""A constant rate for as long as validation gets better."""

SCHEDULED: Mapping[str, Any] = {
    "decay": 1.0,
    "iterations": 500,
    "users_per_batch": 5000,
    "candidates": "all",
}
"""A rate that falls to zero, and all of the schedule; 'docs/performance.md' says why."""

L2 = (0.005, 0.01, 0.02, 0.05, 0.1)
RATES_ADAM = (0.005, 0.01, 0.02, 0.05, 0.1)
RATES_WHITENED = (0.1, 0.2, 0.3)

DENSITY_GRAPH = Grid(
    SCHEDULED,
    (
        {"max_norm": (3.0, 3.5, 4.0, 4.5, 5.0, 6.0)},
        {"l2": L2},
        {"learning_rate": RATES_WHITENED},
    ),
)
DENSITY_GRAPH_UNCLIPPED = Grid(
    SCHEDULED,
    ({"learning_rate": (0.01, 0.02, 0.05, *RATES_WHITENED)}, {"l2": (*L2, 0.2, 0.5)}),
)
DENSITY_FACTORS = Grid(
    EARLY_STOPPED,
    (
        {"max_norm": (1.5, 2.0, 2.5, 3.0, 4.0)},
        {"l2": L2},
        {"learning_rate": RATES_ADAM},
    ),
)
DENSITY_FACTORS_UNCLIPPED = Grid(
    EARLY_STOPPED, ({"learning_rate": RATES_ADAM}, {"l2": (*L2, 0.2, 0.5, 1.0)})
)
PAIRWISE = Grid(
    {**EARLY_STOPPED, "users_per_batch": 4096},
    (
        {"learning_rate": RATES_ADAM},
        {"l2": (0.0001, 0.001, 0.01, 0.05)},
        {"negatives": (1, 5, 20)},
    ),
)
PAIRWISE_CLIPPED = replace(
    PAIRWISE, stages=({"max_norm": (2.0, 3.0, 4.0, 5.0, 6.0)}, *PAIRWISE.stages)
)
ADVERSARIAL = Grid(
    EARLY_STOPPED,
    ({"learning_rate": RATES_ADAM[:4]}, {"l2": (0.001, 0.01, 0.05)}),
    seeds=(0,),
)

GRIDS: Mapping[str, Grid] = {
    "popularity": Grid(seeds=(0,)),
    "itemknn": Grid(stages=({"neighbours": (20, 50, 100, 200, 400)},), seeds=(0,)),
    "ease": Grid(stages=({"l2": (100.0, 300.0, 1000.0, 3000.0)},), seeds=(0,)),
    "als": Grid(
        stages=({"confidence": (10.0, 20.0, 40.0, 80.0)}, {"l2": (3.0, 10.0, 30.0, 100.0)})
    ),
    "wd-lgcn": DENSITY_GRAPH,
    "pde-lgcn": DENSITY_GRAPH,
    "pde-lgcn-unclipped": DENSITY_GRAPH_UNCLIPPED,
    "wd-mf": DENSITY_FACTORS,
    "pde-mf": DENSITY_FACTORS,
    "pde-mf-unclipped": DENSITY_FACTORS_UNCLIPPED,
    "enmf": Grid(
        EARLY_STOPPED,
        (
            {"unobserved_weight": (0.01, 0.02, 0.05, 0.1)},
            {"learning_rate": (0.02, 0.05, 0.1)},
            {"dropout": (0.0, 0.3, 0.5)},
        ),
    ),
    "dregn-cf": Grid(
        EARLY_STOPPED,
        (
            {"learning_rate": RATES_ADAM[:4]},
            {"l2": (0.01, 0.05, 0.1)},
            {"ratio_bound": (50.0, 70.0, 90.0)},
        ),
    ),
    "mult-vae": Grid(
        EARLY_STOPPED,
        ({"learning_rate": (0.0005, 0.001, 0.002)}, {"dropout": (0.3, 0.5, 0.7)}),
    ),
    "bpr-mf": PAIRWISE,
    "bpr-mf-popularity": PAIRWISE,
    "bpr-mf-dns": PAIRWISE,
    "bpr-mf-ans": PAIRWISE,
    "lightgcn": PAIRWISE,
    "lightgcn-popularity": PAIRWISE,
    "lightgcn-dns": PAIRWISE,
    "lightgcn-ans": PAIRWISE,
    "lightgcn-ans-nc": PAIRWISE_CLIPPED,
    "ngcf": Grid(
        EARLY_STOPPED,
        (
            {"learning_rate": (0.001, 0.003, 0.01)},
            {"l2": (0.00001, 0.001, 0.01)},
            {"dropout": (0.0, 0.1, 0.3)},
        ),
        seeds=(0,),
    ),
    "irgan": ADVERSARIAL,
    "irwgan": ADVERSARIAL,
}
"""Every method of the tables, the cheap ones first: in this order they are run."""

SENSITIVITY: Stage = {"max_norm": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None)}
"""n̄ as in the paper's figure; None is no clipping."""
QUICK_SENSITIVITY: Stage = {"max_norm": (2.0, 4.0, None)}
