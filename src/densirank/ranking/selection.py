"""The best columns of every row of a block of scores, exactly and in a fixed order.

Equal scores are ordered by column, so that a result depends on the scores alone and not on how a
sort happens to treat equals. A wide block is read once: the columns are cut into groups, and only
the k groups with the highest peaks can hold one of the k best columns. (An item outside of them
has k items before it, one in each of those groups: the one at the peak, which is higher, or as
high and in a group further left.)
"""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 64
"""Columns a group: about the root of a large catalogue, so that both steps are small."""


def best_columns(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """(the k highest scores of each row, their columns), best first, equals by column.

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
