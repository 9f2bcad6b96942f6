"""Why an item is listed: what its score loses when a past item is taken out of the history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.models.base import Trained
from densirank.ranking.blocks import score_blocks
from densirank.ranking.fold_in import fold_in

ENTRIES = 1 << 22
"""Items of all histories that are folded in at once, at most: a long one is taken in parts."""


def contributions(
    trained: Trained, history: NDArray[np.int32], item: int, item_ids: Vocabulary
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """(the history's other items, what each adds to the item's score), most first."""
    past = history[history != item]
    if len(past) == 0:
        raise InputError("there is no other item in the history that could explain this one")
    (added,) = contributions_to(trained, past, [item], item_ids)
    order = np.argsort(-added, kind="stable")
    return past[order], added[order]


def contributions_to(
    trained: Trained, past: NDArray[np.int32], items: Sequence[int], item_ids: Vocabulary
) -> NDArray[np.float64]:
    """What each past item adds to the score of each of these items, (items, past items).

    The history is folded in once whole and once without each of its items. Without its only item
    nothing is known of a person, and the score is 0.
    """
    whole = _scores(trained, [past], items, item_ids)
    if len(past) == 1:
        return whole
    without = [_scores(trained, part, items, item_ids) for part in _leave_one_out(past)]
    return whole - np.concatenate(without, axis=1)


def _leave_one_out(past: NDArray[np.int32]) -> Iterator[list[NDArray[np.int32]]]:
    """The history without its first item, without its second, …, some at a time."""
    at_once = max(1, ENTRIES // len(past))
    for start in range(0, len(past), at_once):
        stop = min(start + at_once, len(past))
        yield [np.delete(past, place) for place in range(start, stop)]


def _scores(
    trained: Trained,
    histories: list[NDArray[np.int32]],
    items: Sequence[int],
    item_ids: Vocabulary,
) -> NDArray[np.float64]:
    """The scores of some items for each of these histories, (items, histories)."""
    people = Interactions(
        indptr=np.concatenate(([0], np.cumsum([len(history) for history in histories]))),
        items=np.concatenate(histories),
        user_ids=Vocabulary.from_sorted(np.arange(len(histories))),
        item_ids=item_ids,
    )
    scorer = fold_in(trained, people)
    everyone = torch.arange(people.n_users, device=scorer.device)
    wanted = [scores[:, list(items)] for _, scores in score_blocks(scorer, everyone)]
    return torch.cat(wanted).T.double().cpu().numpy()
