"""Which settings are tried for each method: small searches in stages, since time is scarce.

The first trial is the start: the method's own defaults with ``fixed`` on top. A stage varies some
keys around the best trial so far. Rates fall to zero over the iterations, so how many of those
there are is a setting like the others. Where 'decay' is 0 a trial is stopped early instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from densirank import methods

Stage = Mapping[str, tuple[Any, ...]]

QUICK_ITERATIONS = 5


@dataclass(frozen=True)
class Grid:
    """How a method's settings are searched, and with which seeds the winner is run."""

    fixed: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[Stage, ...] = ()
    seeds: tuple[int, ...] = (0, 1, 2)
    held_out: tuple[float, ...] = (0.2,)  # shares of a user's last items; trials are judged by each

    def quick(self) -> Grid:
        """One trial, one seed and few iterations: to see that everything works."""
        return replace(
            self,
            fixed={**self.fixed, "iterations": QUICK_ITERATIONS},
            stages=(),
            seeds=self.seeds[:1],
        )


ALL_ITEMS: Mapping[str, Any] = {"users_per_batch": 5000, "candidates": "all"}
"""Of the density methods: larger batches than the paper's, as 'docs/performance.md' explains."""

L2 = (0.005, 0.01, 0.02, 0.05)
STRONG_L2 = (0.05, 0.1, 0.3, 0.5)
WHITENED: Mapping[str, Any] = {"optimiser": "whitened", "learning_rate": 0.2, **ALL_ITEMS}
ADAM: Mapping[str, Any] = {"optimiser": "adam", "learning_rate": 0.05, **ALL_ITEMS}

DENSITY_GRAPH = Grid(
    {**WHITENED, "iterations": 500},
    (
        {"max_norm": (3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 8.0)},
        {"l2": L2},
        {"learning_rate": (0.1, 0.2, 0.3)},
    ),
)
DENSITY_GRAPH_UNCLIPPED = Grid(
    {**ADAM, "iterations": 500},
    (
        {"l2": (0.02, 0.05, 0.1, 0.2)},
        {"learning_rate": (0.01, 0.02, 0.05, 0.1)},
        {"iterations": (500, 1000)},
    ),
)
DENSITY_FACTORS = Grid(
    {**WHITENED, "iterations": 500},
    (
        {"l2": STRONG_L2},
        {"max_norm": (2.0, 2.5, 3.0, 4.0, 5.0)},
        {"l2": STRONG_L2},
        {"learning_rate": (0.1, 0.2, 0.3)},
    ),
)
DENSITY_FACTORS_UNCLIPPED = Grid(
    {**ADAM, "iterations": 500},
    ({"l2": (0.1, 0.3, 0.5, 0.7, 1.0)}, {"learning_rate": (0.02, 0.05, 0.1)}),
)
PAIRWISE_GRAPH = Grid(
    stages=(
        {"l2": (0.0001, 0.0003, 0.001, 0.003)},
        {"learning_rate": (0.02, 0.05)},
        {"iterations": (1000, 2000)},
    )
)
ADAPTIVE_GRAPH = Grid(
    stages=({"l2": (0.001, 0.003, 0.01, 0.03, 0.06)}, {"learning_rate": (0.02, 0.05)})
)
ADAPTIVE_GRAPH_CLIPPED = Grid(
    stages=({"max_norm": (3.0, 4.0, 5.0)}, {"l2": (0.001, 0.003, 0.01, 0.03)}),
)
OTHER_NEGATIVES_GRAPH = Grid(stages=({"l2": (0.001, 0.003, 0.01)}, {"learning_rate": (0.02, 0.05)}))
PAIRWISE_FACTORS = Grid(stages=({"l2": (0.003, 0.01, 0.03, 0.1)}, {"learning_rate": (0.02, 0.05)}))
ADVERSARIAL = Grid(
    {"iterations": 500},
    ({"learning_rate": (0.01, 0.05)}, {"l2": (0.005, 0.02, 0.1, 0.3)}),
    seeds=(0,),
)

FIVE = (0, 1, 2, 3, 4)
BLIND = Grid(
    {"optimiser": "adam", "learning_rate": 0.05, "max_norm": 4.5},
    (
        {"base_exponent": (0.0, 0.5)},
        {"max_norm": (4.0, 5.5)},
        {"filter_kind": ("graph",), "filter_weight": (0.05, 0.075, 0.1)},
        {"filter_weight": (0.0, 0.2, 0.4)},
        {"low_pass_weight": (0.0, 0.1)},
        {"user_exponent": (0.5, 1.0)},
        {"l2": (0.02, 0.05)},
        {"max_norm": (7.0, 9.0)},
        {"filter_kind": ("mild",), "filter_weight": (0.1, 0.2, 0.4)},
        {"base_exponent": (0.25,)},
        {"inference_layers": (2, 4)},
        {"filter_kind": ("ridge",), "filter_weight": (0.1, 0.4, 0.8)},
    ),
    seeds=FIVE,
    held_out=(0.1, 0.2),
)
"""Judged by the last tenth of a row and by the last fifth: filters gain by more data, and a fit
without a tenth is nearer to the one that a trial stands for."""
TIMED = Grid(
    methods.TIMED,
    (
        {"recency": (1.0, 3.0)},
        {"filter_weight": (0.1, 0.4, 0.7)},
        {"filter_recency": (2.0, 5.0)},
        {"filter_span": (4, 16)},
        {"max_norm": (4.0, 5.0, 5.5)},
        {"base_exponent": (0.0, 0.25)},
        {"user_exponent": (1.0,)},
        {"l2": (0.1,)},
    ),
    seeds=FIVE,
)

GRIDS: Mapping[str, Grid] = {
    "popularity": Grid(seeds=(0,)),
    "itemknn": Grid(
        stages=({"neighbours": (50, 100, 200, 400)}, {"l2": (0.0, 10.0, 50.0, 200.0)}), seeds=(0,)
    ),
    "ease": Grid(stages=({"l2": (10.0, 20.0, 50.0, 100.0, 200.0, 500.0)},), seeds=(0,)),
    "densirank-blind": BLIND,
    "densirank-blind-pde": BLIND,
    "densirank": TIMED,
    "wd-lgcn": DENSITY_GRAPH,
    "pde-lgcn": DENSITY_GRAPH,
    "pde-lgcn-unclipped": DENSITY_GRAPH_UNCLIPPED,
    "wd-mf": DENSITY_FACTORS,
    "pde-mf": DENSITY_FACTORS,
    "pde-mf-unclipped": DENSITY_FACTORS_UNCLIPPED,
    "als": Grid(
        {"dim": 64, "confidence": 40.0, "l2": 30.0},
        ({"confidence": (10.0, 20.0, 80.0)}, {"l2": (3.0, 10.0, 100.0)}),
    ),
    "enmf": Grid(
        stages=(
            {"unobserved_weight": (0.01, 0.02, 0.05, 0.1)},
            {"learning_rate": (0.02, 0.05)},
            {"dropout": (0.0, 0.3, 0.5)},
        )
    ),
    "dregn-cf": Grid(
        stages=(
            {"l2": (0.02, 0.04, 0.08)},
            {"iterations": (200, 300, 600, 1200)},
            {"learning_rate": (0.01, 0.02)},
            {"ratio_bound": (50.0, 70.0, 90.0)},
        )
    ),
    "lightgcn": PAIRWISE_GRAPH,
    "lightgcn-ans": ADAPTIVE_GRAPH,
    "lightgcn-ans-nc": ADAPTIVE_GRAPH_CLIPPED,
    "ngcf": Grid(stages=({"l2": (0.01, 0.03, 0.1)}, {"dropout": (0.0, 0.1)}), seeds=(0,)),
    "mult-vae": Grid(stages=({"l2": (0.5, 1.0, 2.0)}, {"dropout": (0.5, 0.7)})),
    "bpr-mf": PAIRWISE_FACTORS,
    "bpr-mf-popular": PAIRWISE_FACTORS,
    "bpr-mf-dns": PAIRWISE_FACTORS,
    "bpr-mf-ans": PAIRWISE_FACTORS,
    "lightgcn-popular": OTHER_NEGATIVES_GRAPH,
    "lightgcn-dns": OTHER_NEGATIVES_GRAPH,
    "irgan": ADVERSARIAL,
    "irwgan": ADVERSARIAL,
}
"""Every method of the tables, the cheap ones first: in this order they are run."""

SENSITIVITY: Stage = {"max_norm": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, None)}
"""n̄ as in the paper's figure; None is no clipping."""
QUICK_SENSITIVITY: Stage = {"max_norm": (2.0, 4.0, None)}
