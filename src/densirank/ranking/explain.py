"""Explains a listed item by past items: how much its score drops without each of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.models.base import Trained
from densirank.ranking.blocks import score_blocks
from densirank.ranking.fold_in import fold_in

MAX_ENTRIES = 1 << 22
"""Largest number of items of all histories folded in at once; more are split into parts."""


def contributions(
    trained: Trained, data: Interactions, user: int, item: int
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """(the other items of a user, their contributions to the score), highest first."""
    history, weights = data.items_of(user), weights_of(data, user)
    others = history != item
    past = history[others]
    if len(past) == 0:
        raise InputError("the history has no other item that could explain this one")
    own = None if weights is None else weights[others]
    (added,) = contributions_to(trained, past, [item], data, own)
    order = np.argsort(-added, kind="stable")
    return past[order], added[order]


def contributions_to(
    trained: Trained,
    past: NDArray[np.int32],
    items: Sequence[int],
    data: Interactions,
    weights: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """What each past item contributes to the score of each of these items, (items, past items).

    The history is folded in once whole and once without each of its items, in order of time if the
    data it is from are, and with the ``weights`` of its pairs. An empty history has score 0.
    """

    def scores(without: range | None) -> NDArray[np.float64]:
        """Of the history, or of those that one of these places is removed from."""
        kept = [np.arange(len(past))]
        if without is not None:
            kept = [np.delete(kept[0], place) for place in without]
        own = None if weights is None else [weights[places] for places in kept]
        return _scores(trained, [past[places] for places in kept], items, data, own)

    whole = scores(None)
    if len(past) == 1:
        return whole
    at_once = max(1, MAX_ENTRIES // len(past))
    blocks = (range(len(past))[start : start + at_once] for start in range(0, len(past), at_once))
    without: NDArray[np.float64] = np.concatenate([scores(block) for block in blocks], axis=1)
    return whole - without


def weights_of(data: Interactions, user: int) -> NDArray[np.float32] | None:
    """The weights of a user's pairs, in the order of the items; None if pairs have none."""
    return None if data.weights is None else data.weights[slice(*data.indptr[user : user + 2])]


def _scores(
    trained: Trained,
    histories: list[NDArray[np.int32]],
    items: Sequence[int],
    data: Interactions,
    weights: list[NDArray[np.float32]] | None,
) -> NDArray[np.float64]:
    """The scores of some items for each of these histories, (items, histories)."""
    people = Interactions(
        indptr=np.concatenate(([0], np.cumsum([len(history) for history in histories]))),
        items=np.concatenate(histories),
        user_ids=Vocabulary.from_sorted(np.arange(len(histories))),
        item_ids=data.item_ids,
        weights=None if weights is None else np.concatenate(weights),
        ordered=data.ordered,
    )
    scorer = fold_in(trained, people)
    users = torch.arange(people.n_users, device=scorer.device)
    wanted = [scores[:, list(items)] for _, scores in score_blocks(scorer, users)]
    return torch.cat(wanted).T.double().cpu().numpy()
