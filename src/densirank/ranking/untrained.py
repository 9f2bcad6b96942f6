"""Fallbacks for what training did not see: items without interactions, and users without items.

Their vectors are where chance has put them, if nothing moved them. So an item without interactions
comes after all others, just below a person's least score, and a person without items has the scores
of the popularity fallback, log(count + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.models.popularity import log_popularity
from densirank.scores import CalibratedScorer, VectorScorer

BELOW = 1e-6
"""How far below the least score of a person an untrained item is, in units of 1 + that score."""


@dataclass(frozen=True)
class FallbackScorer(VectorScorer):
    """The scores of a :class:`VectorScorer` with a fallback for what training did not see."""

    untrained_items: Tensor | None = None  # indices of items that nobody had
    without_items: Tensor | None = None  # (users,) true for a person without items
    popularity: Tensor | None = None  # (items,) log(count + 1)

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        scores = super().scores(users, out)
        if self.untrained_items is not None:
            scores[:, self.untrained_items] = torch.inf
            least = scores.amin(dim=1, keepdim=True)
            scores[:, self.untrained_items] = least - BELOW * (1 + least.abs())
        self.popular(scores, users)
        return scores

    def popular(self, scores: Tensor, users: Tensor) -> None:
        """Write the popularity fallback into the rows of people without items."""
        if self.without_items is not None and self.popularity is not None:
            scores[self.without_items[users]] = self.popularity


@dataclass(frozen=True)
class FallbackDensity(CalibratedScorer):
    """A calibrated density that leaves the popularity fallback as it is."""

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        logits = super().scores(users, out)
        if isinstance(self.scorer, FallbackScorer):
            self.scorer.popular(logits, users)
        return logits

    def logits(
        self, scores: Tensor, items: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """The logits; a negative popularity exponent does not favour items without interactions."""
        logits = super().logits(scores, items, out)
        untrained, exponent = untrained_items(self.scorer), self.calibration.popularity_exponent
        if untrained is None or exponent >= 0:
            return logits
        least = exponent * float(self.log_popularity.max())
        added = self.log_popularity.new_zeros(self.n_items).index_fill(0, untrained, least)
        return torch.add(logits, added if items is None else added[items], out=out)


def with_fallbacks(
    scorer: VectorScorer, user_counts: NDArray[np.int64], item_counts: NDArray[np.int64]
) -> VectorScorer:
    """The scorer with fallbacks for users and items without interactions; itself if there are none.

    The counts are those of what the vectors were trained on.
    """
    untrained, without = np.flatnonzero(item_counts == 0), user_counts == 0
    if len(untrained) == 0 and not without.any():
        return scorer
    device = scorer.device
    return FallbackScorer(
        scorer.user_vectors,
        scorer.item_vectors,
        scorer.sparse_part,
        scorer.neighbours,
        torch.from_numpy(untrained).to(device) if len(untrained) else None,
        torch.from_numpy(without).to(device) if without.any() else None,
        log_popularity(item_counts).squeeze(1).to(device),
    )


def untrained_items(scorer: object) -> Tensor | None:
    """Indices of the items without interactions; None if the scorer has none."""
    return scorer.untrained_items if isinstance(scorer, FallbackScorer) else None


def without_items(scorer: object) -> Tensor | None:
    """(users,) true for a user without items; None if the scorer has none."""
    return scorer.without_items if isinstance(scorer, FallbackScorer) else None
