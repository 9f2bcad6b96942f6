"""Fold-in: vectors for people not seen in training, from their histories.

The items stay as they are, and the vector of a user is computed from the user's items, in a way
that depends on the model. Nothing is trained again, and no other vector changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.models.base import Model, NewUsers, Trained
from densirank.scores import VectorScorer


def fold_in(trained: Trained, histories: Interactions) -> VectorScorer:
    """The scores of a fitted model for people with these histories (of items of the model)."""
    users = new_users(trained, histories).vectors
    scorer = trained.filters(histories)(users, trained.item_vectors)
    part = trained.model.fold_in_sparse(trained, histories)
    return replace(
        scorer,
        item_vectors=trained.scorer.item_vectors,
        sparse_part=scorer.sparse_part if part is None else part,
        neighbours=trained.scorer.neighbours,
    )


def new_users(trained: Trained, histories: Interactions) -> NewUsers:
    """The vectors of people with these histories; an error if the model cannot fold in."""
    with torch.no_grad():
        return trained.model.fold_in(trained, histories)


def without_users(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters without those that have one row per user."""
    return {k: v for k, v in parameters.items() if k.rpartition(".")[2] not in Model.per_user}


@dataclass(frozen=True)
class Histories:
    """Histories of items that a model knows; people without any are left out and counted."""

    known: Interactions
    unknown_items: int
    left_out: int

    @classmethod
    def of(cls, data: Interactions, item_ids: Vocabulary) -> Histories:
        """The part of interactions that a model with these items can use."""
        items = item_ids.indices(data.item_ids.ids)[data.items]
        known = items >= 0
        counts = np.bincount(data.users[known], minlength=data.n_users)
        if not known.any():
            raise InputError(
                "none of the items is known to the model, so no history can be folded in"
            )
        some = counts > 0
        return cls(
            Interactions(
                indptr=np.concatenate(([0], np.cumsum(counts[some]))),
                items=items[known].astype(np.int32),
                user_ids=Vocabulary.from_sorted(data.user_ids.ids[some]),
                item_ids=item_ids,
                timestamps=None if data.timestamps is None else data.timestamps[known],
                weights=None if data.weights is None else data.weights[known],
                ordered=data.ordered,
            ),
            unknown_items=len(np.unique(data.items[~known])),
            left_out=int((data.user_counts[~some] > 0).sum()),
        )
