"""Choice of the item–item filter for given vectors, without training.

The filter is added to the scores f of fixed vectors, f + α · σ_u(f) · g / σ_u(g). Trying another
weight α, or another weighting of recent items in g, therefore costs one evaluation and no fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from densirank.data.interactions import Interactions
from densirank.dimensions import Choices
from densirank.filters.combine import Filters, FilterSettings
from densirank.filters.item_filter import ItemFilter
from densirank.filters.similarity import FilterKind, nearness
from densirank.linalg.sparse import Matrix
from densirank.scores import VectorScorer
from densirank.search.judge import Judge
from densirank.search.propose import walk
from densirank.search.trial import Trial

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0, 20.0, 100.0)
"""Values of α; at the last one the filter alone determines the order."""
RECENCIES = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
USUAL_RECENCY = 3.0
"""The first recency to try, if an order is known."""
SPAN = 8
"""Consecutive items that count as close in time, if an order is known."""
FIRST_WEIGHT = 0.2
"""The first weight to try with trained vectors."""
WEIGHT_WITH_POPULARITY = 20.0
RIDGE = 4.0
"""Upper bound on the time to build a ridge filter, in units of that of a mild one."""
A_PRODUCT, AN_ITEM, A_CELL = 5e-8, 3e-5, 3e-11
"""Upper bounds on the seconds to build a filter: on a CPU per pair of items in a row and per item,
on a GPU, which uses dense rows, per pair of an interaction and an item."""

NO_FILTER: dict[str, Any] = {
    "filter_weight": 0.0,
    "filter_recency": 0.0,
    "filter_span": 0,
    "filter_kind": "mild",
}


def seconds_at_most(data: Interactions, device: torch.device) -> float:
    """Upper bound on the time to build the filter, before any measurement."""
    if device.type == "cuda":
        return A_CELL * len(data) * data.n_items
    counts = data.user_counts.astype(np.float64)
    return float(A_PRODUCT * (counts**2).sum() + AN_ITEM * data.n_items)


class FilterChoice:
    """Filters of the training part, compared by a judge."""

    def __init__(self, judge: Judge, device: torch.device) -> None:
        self._judge, self._device = judge, device
        ordered = judge.train.ordered
        self._grid = {
            "filter_recency": Choices(RECENCIES if ordered else (0.0,)),
            "filter_weight": Choices(WEIGHTS),
        }
        self._start: dict[str, Any] = {
            "filter_weight": WEIGHT_WITH_POPULARITY,
            "filter_recency": USUAL_RECENCY if ordered else 0.0,
            "filter_span": SPAN if ordered else 0,
            "filter_kind": "mild",
        }
        self._near: dict[FilterKind, Matrix] = {}
        self._building_seconds: dict[FilterKind, float] = {}
        self._filter = cache(self._made)
        self._build("mild")
        self.verdict_seconds = judge.seconds  # of the last evaluation, with the filter

    def seconds_for(self, data: Interactions, kind: FilterKind) -> float:
        """Estimated seconds to build a filter, extrapolated from the training part."""
        return self._building_seconds[kind] * len(data) / len(self._judge.train)

    def alone(
        self,
        popularity: VectorScorer,
        go_on: Callable[[], bool],
        time_to_build: Callable[[float], bool],
    ) -> Trial:
        """The best filter on top of popularity, whose weight may be small or only break ties.

        ``time_to_build`` tells whether there is time to build a second kind of filter. That is
        only considered if no order is known: otherwise recency gains as much.
        """
        starts = [self._start]
        ordered = self._judge.train.ordered
        if not ordered and time_to_build(RIDGE * self._building_seconds["mild"]):
            self._build("ridge")
            starts.append(starts[0] | {"filter_kind": "ridge"})
        return self.best_for(popularity, starts, go_on, recency_too=True)

    def best_for(
        self,
        vectors: VectorScorer,
        starts: Sequence[dict[str, Any]],
        go_on: Callable[[], bool],
        *,
        recency_too: bool = False,
    ) -> Trial:
        """The best weight for these vectors, from the best start; optionally the recency first."""
        looks = [self._look(vectors, how) for how in starts]
        for key in list(self._grid)[not recency_too :]:
            here = _best(looks).settings
            propose = walk({key: self._grid[key]}, here, upward=True)
            while go_on() and (step := propose(looks)) is not None:
                looks.append(self._look(vectors, here | step))
        return _best(looks)

    def _look(self, vectors: VectorScorer, how: dict[str, Any]) -> Trial:
        item_filter = self._filter(how["filter_kind"], how["filter_recency"])
        filters = Filters(FilterSettings(**how), self._judge.train, self._device, item_filter)
        scorer = filters(vectors.user_vectors, vectors.item_vectors)
        started = time.perf_counter()
        ndcg = self._judge(scorer)
        self.verdict_seconds = time.perf_counter() - started
        return Trial(0, how, "finished", ndcg, seconds=self.verdict_seconds)

    def _made(self, kind: FilterKind, recency: float) -> ItemFilter:
        train, near = self._judge.train, self._near[kind]
        return ItemFilter.for_histories(train, near, self._device, recency)

    def _build(self, kind: FilterKind) -> None:
        started = time.perf_counter()
        span = self._start["filter_span"]
        self._near[kind] = nearness(self._judge.train, self._device, span, kind)
        self._building_seconds[kind] = time.perf_counter() - started


def _best(looks: Sequence[Trial]) -> Trial:
    return max(looks, key=lambda look: look.ndcg)
