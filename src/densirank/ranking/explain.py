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
    history = data.items_of(user)
    past = history[history != item]
    if len(past) == 0:
        raise InputError("the history has no other item that could explain this one")
    (added,) = contributions_to(trained, past, [item], data)
    order = np.argsort(-added, kind="stable")
    return past[order], added[order]


def contributions_to(
    trained: Trained, past: NDArray[np.int32], items: Sequence[int], data: Interactions
) -> NDArray[np.float64]:
    """What each past item contributes to the score of each of these items, (items, past items).

    The history is folded in once whole and once without each of its items, in order of time if the
    data it is from are. An empty history has score 0.
    """
    whole = _scores(trained, [past], items, data)
    if len(past) == 1:
        return whole
    at_once = max(1, MAX_ENTRIES // len(past))
    blocks = (range(len(past))[start : start + at_once] for start in range(0, len(past), at_once))
    without = [
        _scores(trained, [np.delete(past, place) for place in block], items, data)
        for block in blocks
    ]
    return whole - np.concatenate(without, axis=1)


def _scores(
    trained: Trained,
    histories: list[NDArray[np.int32]],
    items: Sequence[int],
    data: Interactions,
) -> NDArray[np.float64]:
    """The scores of some items for each of these histories, (items, histories)."""
    people = Interactions(
        indptr=np.concatenate(([0], np.cumsum([len(history) for history in histories]))),
        items=np.concatenate(histories),
        user_ids=Vocabulary.from_sorted(np.arange(len(histories))),
        item_ids=data.item_ids,
        ordered=data.ordered,
    )
    scorer = fold_in(trained, people)
    users = torch.arange(people.n_users, device=scorer.device)
    wanted = [scores[:, list(items)] for _, scores in score_blocks(scorer, users)]
    return torch.cat(wanted).T.double().cpu().numpy()
