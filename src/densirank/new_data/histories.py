"""What people had, in a model's own terms, and what of it the model cannot know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError


@dataclass(frozen=True)
class Histories:
    """People with the items a model knows; whoever has none of them is left out, and counted."""

    known: Interactions
    unknown_items: int
    left_out: int

    @classmethod
    def of(cls, data: Interactions, item_ids: Vocabulary) -> Histories:
        """The part of some interactions that a model with these items can use."""
        items = item_ids.indices(data.item_ids.ids)[data.items]
        known = items >= 0
        counts = np.bincount(data.users[known], minlength=data.n_users)
        if not known.any():
            raise InputError("the model knows none of these items, so nobody can be folded in")
        some = counts > 0
        return cls(
            Interactions(
                indptr=np.concatenate(([0], np.cumsum(counts[some]))),
                items=items[known].astype(np.int32),
                user_ids=Vocabulary.from_sorted(data.user_ids.ids[some]),
                item_ids=item_ids,
                ordered=data.ordered,
            ),
            unknown_items=len(np.unique(data.items[~known])),
            left_out=int((data.user_counts[~some] > 0).sum()),
        )
