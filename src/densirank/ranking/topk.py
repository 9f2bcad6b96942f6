"""All items × some users → the best k unseen: computed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from densirank.ranking.blocks import BlockOptions, score_blocks
from densirank.ranking.scores import Scorer
from densirank.ranking.selection import best_columns
from densirank.ranking.spread import spread


@dataclass(frozen=True)
class Lists:
    """The best items of some users, best first; a list that is too short is padded with item -1."""

    users: Tensor  # (users,)
    items: Tensor  # (users, k) item indices, -1 where there is no item left
    scores: Tensor  # (users, k) f_u(i); -inf beside -1
    log_normaliser: Tensor | None  # (users,) log Σ exp of all rankable items' logits, if asked for
    entropy: Tensor | None = field(default=None, kw_only=True)  # (users,) of the same softmax


def top_k(
    scorer: Scorer,
    users: Tensor,
    k: int,
    *,
    logits: Callable[[Tensor], Tensor] | None = None,
    **barring: Unpack[BlockOptions],
) -> Iterator[Lists]:
    """The best ``k`` rankable items of each user, a block of users at a time.

    What is rankable, :func:`~densirank.ranking.blocks.score_blocks` is told. ``logits`` says how
    scores become the logits of a density; with it, lists carry that density's normaliser and
    entropy.
    """
    for block, scores in score_blocks(scorer, users, **barring):
        normaliser, entropy = (None, None) if logits is None else spread(logits(scores))
        best, items = best_columns(scores, min(k, scorer.n_items))
        there = items.masked_fill(best == -torch.inf, -1)
        yield Lists(block, there, best, normaliser, entropy=entropy)
