"""The best k rankable items of each user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Unpack

import torch
from torch import Tensor

from densirank.ranking.blocks import BlockOptions, score_blocks
from densirank.scores import Scorer


@dataclass(frozen=True)
class Lists:
    """The best items of some users, best first; short lists are padded with item -1."""

    users: Tensor  # (users,)
    items: Tensor  # (users, k) item indices, -1 where there is no item left
    scores: Tensor  # (users, k) f_u(i); -inf for item -1
    log_normaliser: Tensor | None = None  # (users,) log Σ exp of the logits of all rankable items
    entropy: Tensor | None = None  # (users,) of the same softmax, in nats
    log_propensities: Tensor | None = None  # (users, k) of draws given those above

    @property
    def effective_items(self) -> Tensor | None:
        """exp of the entropy, (users,): equally likely items; 0 for a user with an empty list."""
        if self.entropy is None:
            return None
        return self.entropy.exp().masked_fill(self.items[:, 0] < 0, 0)


def top_k(
    scorer: Scorer,
    users: Tensor,
    k: int,
    *,
    logits: Callable[[Tensor], Tensor] | None = None,
    by_logits: bool = False,
    **barring: Unpack[BlockOptions],
) -> Iterator[Lists]:
    """The best ``k`` rankable items of each user, a block of users at a time.

    ``barring`` says what is rankable, see :func:`~densirank.ranking.blocks.score_blocks`.
    ``logits`` turns scores into the logits of a density; with it, lists carry the normaliser and
    the entropy of that density, and ``by_logits`` ranks by them, which is by probability.
    """
    for block, scores in score_blocks(scorer, users, **barring):
        keys, normaliser, entropy = scores, None, None
        if logits is not None:
            made = logits(scores)
            normaliser, entropy = spread(made)
            keys = made if by_logits else scores
        best, items = best_columns(keys, min(k, scorer.n_items))
        listed = items.masked_fill(best == -torch.inf, -1)
        yield Lists(block, listed, scores.gather(1, items), normaliser, entropy)


# --- the best columns of a block ------------------------------------------------------------------

GROUP = 64
"""Columns of a group: about the root of a large catalogue, so that both steps are small."""


def best_columns(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(the k highest scores of each row, their columns), best first, ties by column.

    The result depends on the scores alone and not on how a sort treats ties. A wide block is read
    once: the columns are cut into groups, and only the k groups with the highest peaks can contain
    one of the k best columns. (An item outside of them has k items before it, the peaks of those
    groups: each is higher, or equal and in a group further left.)

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
    """The same as :func:`best_columns`, by reading every column."""
    n_columns = scores.shape[1]
    best, columns = scores.topk(min(k + 1, n_columns), dim=1)
    if k < n_columns:
        # A tie across the cut: topk may have taken any of the tied columns; sort stably instead.
        tied = ((best[:, k - 1] == best[:, k]) & (best[:, k] > -torch.inf)).nonzero().squeeze(1)
        best, columns = best[:, :k], columns[:, :k]
        for row in tied.tolist():
            order = scores[row].argsort(descending=True, stable=True)[:k]
            best[row], columns[row] = scores[row, order], order
    columns, by_column = columns.sort(dim=1)
    best, by_score = best.gather(1, by_column).sort(dim=1, descending=True, stable=True)
    return best, columns.gather(1, by_score)


LEAST = -200.0
"""A logit this far below the highest has probability 0 in single precision."""


def spread(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(log Σ exp, entropy in nats) of each row; (-inf, 0) for a row of -inf alone.

    With s the logits minus their peak and Z = Σ exp s, the entropy is log Z - Σ s exp(s) / Z.

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
