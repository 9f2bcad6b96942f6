"""All items × some users → the best k unseen: computed here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Unpack

import torch
from torch import Tensor

from densirank.ranking.blocks import BlockOptions, score_blocks
from densirank.scores import Scorer


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


# --- the best columns of a block ------------------------------------------------------------------

GROUP = 64
"""Columns a group: about the root of a large catalogue, so that both steps are small."""


def best_columns(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(the k highest scores of each row, their columns), best first, equals by column.

    So a result depends on the scores alone and not on how a sort treats equals. A wide block is
    read once: the columns are cut into groups, and only the k groups with the highest peaks can
    hold one of the k best columns. (An item outside of them has k items before it, one in each of
    those groups: the one at the peak, which is higher, or as high and in a group further left.)

    >>> best_columns(torch.tensor([[1.0, 3.0, 3.0, 2.0]]), 3)
    (tensor([[3., 3., 2.]]), tensor([[1, 2, 3]]))
    """
    n_columns = scores.shape[1]
    if n_columns < 4 * k * GROUP:
        return _best(scores, k)
    _, groups = _best(_peaks(scores), k)
    inside = torch.arange(GROUP, device=scores.device)
    columns = (groups.sort(dim=1).values.unsqueeze(2) * GROUP + inside).flatten(1)  # ascending
    candidates = scores.gather(1, columns.clamp(max=n_columns - 1))
    candidates.masked_fill_(columns >= n_columns, -torch.inf)
    best, places = _best(candidates, k)
    return best, columns.gather(1, places)


def _peaks(scores: Tensor) -> Tensor:
    """The highest score in each group of columns, (rows, groups)."""
    n_rows, n_columns = scores.shape
    whole = n_columns // GROUP * GROUP
    peaks = scores[:, :whole].view(n_rows, -1, GROUP).amax(dim=2)
    if whole == n_columns:
        return peaks
    return torch.cat([peaks, scores[:, whole:].amax(dim=1, keepdim=True)], dim=1)


def _best(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """What :func:`best_columns` returns, by looking at every column."""
    n_columns = scores.shape[1]
    best, columns = scores.topk(min(k + 1, n_columns), dim=1)
    if k < n_columns:
        # A tie across the cut: topk may have taken any of the equals, so look again, stably.
        torn = ((best[:, k - 1] == best[:, k]) & (best[:, k] > -torch.inf)).nonzero().squeeze(1)
        best, columns = best[:, :k], columns[:, :k]
        for row in torn.tolist():
            order = scores[row].argsort(descending=True, stable=True)[:k]
            best[row], columns[row] = scores[row, order], order
    columns, by_column = columns.sort(dim=1)
    best, by_score = best.gather(1, by_column).sort(dim=1, descending=True, stable=True)
    return best, columns.gather(1, by_score)


LEAST = -200.0
"""A logit so far below the highest has no probability in single precision."""


def spread(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(log Σ exp, entropy in nats) of each row; a row of nothing but -inf has -inf and 0.

    With s the logits less their peak and Z = Σ exp s, the entropy is log Z - Σ s exp(s) / Z.

    >>> normaliser, entropy = spread(torch.tensor([[0.0, 0.0, -torch.inf]]))
    >>> normaliser.exp().item(), entropy.exp().item()
    (2.0, 2.0)
    """
    peak = logits.amax(dim=1, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
    below = logits - peak
    weights = below.exp()
    total = weights.sum(dim=1)
    mean = torch.linalg.vecdot(weights, below.clamp_(min=LEAST)) / total
    entropy = (total.log() - mean).nan_to_num_(nan=0.0)
    return peak.squeeze(1) + total.log(), entropy
