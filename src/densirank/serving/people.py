"""For whom a list is made: known users, histories sent along, or anybody at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.csr import Rows
from densirank.data.interactions import Interactions
from densirank.models.popularity import log_popularity
from densirank.ranker import Ranker
from densirank.ranking.blocks import Barring
from densirank.ranking.calibration import CalibratedScorer, Calibration
from densirank.ranking.sampling import draw_slates
from densirank.ranking.scores import VectorScorer
from densirank.ranking.search import search_top_k
from densirank.ranking.topk import Lists, top_k

Kind = Literal["known", "folded-in", "popular"]
Id = int | str


@dataclass(frozen=True, eq=False)
class Choice:
    """How many items, among which, and how they are chosen."""

    k: int
    filter_seen: bool = True
    allowed: Tensor | None = None
    excluded: Tensor | None = None
    seed: int | None = None  # of a draw; None: the best items
    temperature: float = 1.0
    approximate: bool = False  # by the model's index


@dataclass(frozen=True, eq=False)
class People:
    """Some people's densities over the whole catalogue."""

    kind: Kind
    ids: Sequence[Id | None]
    rows: Tensor  # (people,) of the density
    density: CalibratedScorer
    seen: Rows | None
    ranker: Ranker | None = None  # that can explain their lists

    def lists(self, choice: Choice) -> Iterator[Lists]:
        """Their lists, some people at a time; with normaliser and entropy, unless by an index."""
        barring: Barring = {
            "seen": self.seen if choice.filter_seen else None,
            "allowed": choice.allowed,
            "excluded": choice.excluded,
        }
        k, density = choice.k, self.density
        if choice.seed is not None:
            return draw_slates(density, self.rows, k, choice.temperature, choice.seed, **barring)
        if choice.approximate and self.ranker is not None:
            index = self.ranker.required_index()
            return search_top_k(index, self.ranker.scorer_, self.rows, k, **barring)
        return top_k(density.scorer, self.rows, k, logits=density.logits, **barring)


def density_of(ranker: Ranker) -> CalibratedScorer:
    """p(i|u) of a ranker's users."""
    counts = torch.from_numpy(ranker.items_.counts)
    return CalibratedScorer(ranker.scorer_, ranker.calibration_ or Calibration(), counts)


def folded_in(ranker: Ranker, histories: Sequence[NDArray[np.int64]]) -> People:
    """People who are known by their items alone (item indices, none of them without any)."""
    users = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    items = ranker.interactions_.item_ids.ids[np.concatenate(histories)]
    folded = ranker.fold_in(Interactions.from_pairs(users, items, ordered=True))
    rows = torch.arange(len(histories))
    seen = Rows.of(folded.interactions_, folded.scorer_.device)
    return People("folded-in", [None] * len(rows), rows, density_of(folded), seen, folded)


def strangers(ranker: Ranker, ids: Sequence[Id | None]) -> People:
    """People of whom nothing is known: the density of all interactions is theirs."""
    popularity = log_popularity(ranker.items_.counts)
    scorer = VectorScorer(popularity.new_ones(len(ids), 1), popularity)
    density = CalibratedScorer(scorer, Calibration(), torch.from_numpy(ranker.items_.counts))
    return People("popular", ids, torch.arange(len(ids)), density, None)
