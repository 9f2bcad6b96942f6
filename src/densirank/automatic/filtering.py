"""The item–item filter beside vectors that are there already: choosing it takes no training.

f + α · σ_u(f) · g / σ_u(g) is added up when vectors f are known, so that trying another weight α,
or how much more recent items count in g, costs a look at the held-out items and no more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from densirank.automatic.climbing import climb
from densirank.automatic.judging import Judge
from densirank.data.interactions import Interactions
from densirank.filters.item_filter import ItemFilter
from densirank.filters.similarity import FilterKind, nearness
from densirank.linalg.sparse import Matrix
from densirank.scores import VectorScorer

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 1.0, 2.0, 5.0, 20.0, 100.0)
"""What α may be; at the end the filter is all that counts."""
RECENCIES = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0)
USUAL_RECENCY = 3.0
"""How much more recent items may count, where an order is known, and what is tried first."""
SPAN = 8
"""Items in a row of time that are near each other, where an order is known."""

A_PRODUCT, AN_ITEM, A_CELL = 5e-8, 3e-5, 3e-11
"""Seconds that building a filter takes at most: on a CPU for each pair of items in a row and each
item, on a GPU, which writes items out, for each pair of an interaction and an item."""


@dataclass(frozen=True)
class FilterUse:
    """How the filter stands beside the vectors."""

    weight: float = 0.0
    recency: float = 0.0
    span: int = 0
    kind: FilterKind = "mild"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "filter_weight": self.weight,
            "filter_recency": self.recency,
            "filter_span": self.span,
            "filter_kind": self.kind,
        }


NOTHING = FilterUse()
FIRST = 0.2
"""The weight that is tried first beside trained vectors."""
ALONE = 20.0
"""And beside popularity."""
RIDGE = 4.0
"""How many times as long as with mild powers it takes to build the filter by ridge, at most."""


def seconds_at_most(data: Interactions, device: torch.device) -> float:
    """What building the filter should take at most, before anything was measured."""
    if device.type == "cuda":
        return A_CELL * len(data) * data.n_items
    counts = data.user_counts.astype(np.float64)
    return float(A_PRODUCT * (counts**2).sum() + AN_ITEM * data.n_items)


class FilterChoice:
    """The filter of the training part, for the users who are judged by."""

    def __init__(self, judge: Judge, device: torch.device) -> None:
        self._judge, self._device = judge, device
        ordered = judge.train.ordered
        self._span = SPAN if ordered else 0
        self._recencies = RECENCIES if ordered else (0.0,)
        self._usual = USUAL_RECENCY if ordered else 0.0
        self._filters: dict[tuple[FilterKind, float], ItemFilter] = {}
        self._near: dict[FilterKind, Matrix] = {}
        self._building_seconds: dict[FilterKind, float] = {}
        self._build("mild")
        self.verdict_seconds = judge.seconds  # what a look takes: the last one, with the filter

    def seconds_for(self, data: Interactions, kind: FilterKind) -> float:
        """About what building it takes, by what it took for the training part."""
        return self._building_seconds[kind] * len(data) / len(self._judge.train)

    def alone(
        self,
        popularity: VectorScorer,
        go_on: Callable[[], bool],
        time_to_build: Callable[[float], bool],
    ) -> tuple[FilterUse, float]:
        """The best that can be had untrained: (how beside popularity, its nDCG@20).

        ``time_to_build`` says whether there are so many seconds for another kind of it. Where an
        order is known, recent items say what a ridge would find out.
        """
        start = FilterUse(ALONE, self._usual, self._span)
        ordered = self._judge.train.ordered
        if not ordered and time_to_build(RIDGE * self._building_seconds["mild"]):
            self._build("ridge")
            by_ridge = replace(start, kind="ridge")
            start = max(start, by_ridge, key=lambda how: self._ndcg(popularity, how))
        return self.beside(popularity, start, go_on, recency_too=True)

    def beside(
        self,
        vectors: VectorScorer,
        start: FilterUse,
        go_on: Callable[[], bool],
        *,
        recency_too: bool = False,
    ) -> tuple[FilterUse, float]:
        """The best weight beside these vectors, after the best recency where asked; its nDCG@20."""

        @cache
        def value(how: FilterUse) -> float:
            return self._ndcg(vectors, how)

        how = start
        if recency_too:
            recency, _ = climb(
                self._recencies, how.recency, lambda it: value(replace(how, recency=it)), go_on
            )
            how = replace(how, recency=recency)
        weight, ndcg = climb(WEIGHTS, how.weight, lambda it: value(replace(how, weight=it)), go_on)
        return replace(how, weight=weight), ndcg

    def _ndcg(self, vectors: VectorScorer, how: FilterUse) -> float:
        users, items = vectors.user_vectors, vectors.item_vectors
        part = self._filter_of(how.kind, how.recency).added_to(users, items, how.weight)
        started = time.perf_counter()
        ndcg = self._judge(VectorScorer(users, items, part))
        self.verdict_seconds = time.perf_counter() - started
        return ndcg

    def _filter_of(self, kind: FilterKind, recency: float) -> ItemFilter:
        if (kind, recency) not in self._filters:
            self._filters[kind, recency] = ItemFilter.for_histories(
                self._judge.train, self._near[kind], self._device, recency
            )
        return self._filters[kind, recency]

    def _build(self, kind: FilterKind) -> None:
        started = time.perf_counter()
        self._near[kind] = nearness(self._judge.train, self._device, self._span, kind)
        self._building_seconds[kind] = time.perf_counter() - started
