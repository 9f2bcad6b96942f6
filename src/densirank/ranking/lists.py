"""Lists for people: known users, fold-ins, or users not seen in training.

Every list, in Python, on the command line and over HTTP, comes out of :meth:`People.lists`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.vocabulary import Vocabulary
from densirank.linalg.csr import RowSource
from densirank.models.popularity import log_popularity
from densirank.ranking.approximate import Index, search_top_k
from densirank.ranking.blocks import Barring
from densirank.ranking.sampling import draw_slates
from densirank.ranking.topk import Lists, top_k
from densirank.scores import CalibratedScorer, Calibration, VectorScorer

Kind = Literal["known", "folded-in", "popular"]
RankBy = Literal["score", "probability"]
Unknown = Literal["error", "popular", "skip"]
"""What users not seen in training get: an error, the popularity fallback, or no list."""
UNKNOWN = get_args(Unknown)


@dataclass(frozen=True, eq=False)
class Choice:
    """How many items to list, among which, and how to choose them."""

    k: int
    filter_seen: bool = True
    items: Tensor | None = None  # the only items considered; None: all
    exclude: Tensor | None = None
    seed: int | None = None  # of a draw; None: the best items
    temperature: float = 1.0
    approximate: bool = False  # search the index of the model
    rank_by: RankBy = "score"


@dataclass(frozen=True, eq=False)
class People:
    """Some people and their densities over the whole catalogue."""

    kind: Kind
    user_ids: Vocabulary  # of all users of the density
    rows: Tensor  # (people,) of the density
    density: CalibratedScorer
    scorer: VectorScorer  # of the same users
    seen: RowSource | None = None
    index: Callable[[], Index] | None = None  # for approximate lists

    def barring(self, choice: Choice) -> Barring:
        """The items that cannot be listed."""
        return {
            "seen": self.seen if choice.filter_seen else None,
            "allowed": choice.items,
            "excluded": choice.exclude,
        }

    def lists(self, choice: Choice) -> Iterator[Lists]:
        """Their lists, a block of people at a time; approximate ones without probabilities."""
        k, density, barring = choice.k, self.density, self.barring(choice)
        if choice.seed is not None:
            return draw_slates(density, self.rows, k, choice.temperature, choice.seed, **barring)
        if choice.approximate and self.index is not None:
            return search_top_k(self.index(), self.scorer, self.rows, k, **barring)
        by_logits = choice.rank_by == "probability"
        return top_k(
            self.scorer, self.rows, k, logits=density.logits, by_logits=by_logits, **barring
        )

    def probabilities(self, lists: Lists) -> Tensor | None:
        """p(i|u) of the listed items, (people, k); None for approximate lists."""
        if lists.log_normaliser is None:
            return None
        logits = self.density.logits(lists.scores, lists.items.clamp(min=0))
        return (logits - lists.log_normaliser.unsqueeze(1)).exp()


def unknown_users(
    user_ids: Vocabulary, item_counts: NDArray[np.int64], device: torch.device
) -> People:
    """Users not seen in training, or known without items, who get the popularity fallback."""
    popularity = log_popularity(item_counts).to(device)
    scorer = VectorScorer(popularity.new_ones(1, 1).expand(len(user_ids), 1), popularity)
    density = CalibratedScorer(scorer, Calibration(), torch.from_numpy(item_counts))
    rows = torch.arange(len(user_ids), device=device)
    return People("popular", user_ids, rows, density, scorer)
