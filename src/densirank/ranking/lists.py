"""Lists for people: users of the model, histories sent along, or users nothing is known of.

Every list, in Python, on the command line and over HTTP, comes out of :meth:`People.lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.vocabulary import Vocabulary
from densirank.linalg.csr import RowSource
from densirank.models.popularity import log_popularity
from densirank.ranking.approximate import Index, search_top_k
from densirank.ranking.blocks import Barring
from densirank.ranking.calibration import CalibratedScorer, Calibration
from densirank.ranking.sampling import draw_slates
from densirank.ranking.topk import Lists, top_k
from densirank.scores import VectorScorer

Kind = Literal["known", "folded-in", "popular"]


@dataclass(frozen=True, eq=False)
class Choice:
    """How many items, among which, and how they are chosen."""

    k: int
    filter_seen: bool = True
    items: Tensor | None = None  # the only ones considered
    exclude: Tensor | None = None
    seed: int | None = None  # of a draw; None: the best items
    temperature: float = 1.0
    approximate: bool = False  # by the model's index


@dataclass(frozen=True, eq=False)
class People:
    """Some people and their densities over the whole catalogue."""

    kind: Kind
    user_ids: Vocabulary  # of all users of the density
    rows: Tensor  # (people,) of the density
    density: CalibratedScorer
    scorer: VectorScorer  # what the density is of
    seen: RowSource | None = None
    index: Callable[[], Index] | None = None  # where lists may be searched for

    def barring(self, choice: Choice) -> Barring:
        """What cannot be listed."""
        return {
            "seen": self.seen if choice.filter_seen else None,
            "allowed": choice.items,
            "excluded": choice.exclude,
        }

    def lists(self, choice: Choice) -> Iterator[Lists]:
        """Their lists, some people at a time; with normaliser and entropy, unless by an index."""
        k, density, barring = choice.k, self.density, self.barring(choice)
        if choice.seed is not None:
            return draw_slates(density, self.rows, k, choice.temperature, choice.seed, **barring)
        if choice.approximate and self.index is not None:
            return search_top_k(self.index(), self.scorer, self.rows, k, **barring)
        return top_k(self.scorer, self.rows, k, logits=density.logits, **barring)


def unknown_users(
    user_ids: Vocabulary, item_counts: NDArray[np.int64], device: torch.device
) -> People:
    """The popularity fallback: the density of all interactions is theirs."""
    popularity = log_popularity(item_counts).to(device)
    scorer = VectorScorer(popularity.new_ones(len(user_ids), 1), popularity)
    density = CalibratedScorer(scorer, Calibration(), torch.from_numpy(item_counts))
    rows = torch.arange(len(user_ids), device=device)
    return People("popular", user_ids, rows, density, scorer)


def probabilities(lists: Lists, density: CalibratedScorer) -> Tensor | None:
    """p(i|u) of listed items, (users, k); None where an index has not looked at all items."""
    if lists.log_normaliser is None:
        return None
    logits = density.logits(lists.scores, lists.items.clamp(min=0))
    return (logits - lists.log_normaliser.unsqueeze(1)).exp()
