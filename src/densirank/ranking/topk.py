"""All items × some users → the best k unseen: computed here and nowhere else.

Users go through in blocks whose scores fit a budget in bytes, so memory never grows with
users × items.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from densirank.csr import RowSource
from densirank.ranking.scores import Scorer
from densirank.ranking.selection import best_columns

CPU_BUDGET_BYTES = 256 << 20
GPU_BUDGET_BYTES = 4 << 30
"""Memory for the scores of one block and what ranking makes of them; of a small GPU, an eighth."""

COPIES = 3
"""Tensors of the size of a block that exist at the same time, at most."""


@dataclass(frozen=True)
class Lists:
    """The best items of some users, best first; a list that is too short is padded with item -1."""

    users: Tensor  # (users,)
    items: Tensor  # (users, k) item indices, -1 where there is no item left
    scores: Tensor  # (users, k) f_u(i); -inf beside -1
    log_normaliser: Tensor | None  # (users,) log Σ exp f over all rankable items, if asked for


def top_k(
    scorer: Scorer,
    users: Tensor,
    k: int,
    *,
    seen: RowSource | None = None,
    allowed: Tensor | None = None,
    excluded: Tensor | None = None,
    with_normaliser: bool = False,
    budget_bytes: int | None = None,
) -> Iterator[Lists]:
    """The best ``k`` rankable items of each user, a block of users at a time.

    Rankable is what is ``allowed`` (item indices; None: everything), not ``excluded``, and not
    among the user's ``seen`` items.
    """
    barred = barred_items(scorer, allowed, excluded)
    any_barred = bool(barred.any())

    budget = default_budget(scorer.device) if budget_bytes is None else budget_bytes
    rows = min(rows_per_block(scorer.n_items, budget), len(users))
    memory = torch.empty(rows, scorer.n_items, device=scorer.device)  # new pages cost CPU time
    for block in torch.split(users, max(1, rows)):
        scores = scorer.scores(block, out=memory[: len(block)])
        if any_barred:
            scores[:, barred] = -torch.inf
        if seen is not None:
            own = seen.take(block)
            scores[own.row_of_entry, own.columns] = -torch.inf
        normaliser = torch.logsumexp(scores, dim=1) if with_normaliser else None
        best, items = best_columns(scores, min(k, scorer.n_items))
        yield Lists(block, items.masked_fill(best == -torch.inf, -1), best, normaliser)


def barred_items(scorer: Scorer, allowed: Tensor | None, excluded: Tensor | None) -> Tensor:
    """(items,) true where an item is not allowed or is excluded."""
    barred = torch.zeros(scorer.n_items, dtype=torch.bool, device=scorer.device)
    if allowed is not None:
        barred[:] = True
        barred[allowed] = False
    if excluded is not None:
        barred[excluded] = True
    return barred


def default_budget(device: torch.device) -> int:
    """Bytes a block may take where nothing else is said: a GPU works best on large ones."""
    if device.type == "cpu":
        return CPU_BUDGET_BYTES
    return min(GPU_BUDGET_BYTES, torch.cuda.get_device_properties(device).total_memory // 8)


def rows_per_block(n_items: int, budget_bytes: int) -> int:
    """How many users' scores may be held at once."""
    return max(1, budget_bytes // (COPIES * 4 * max(1, n_items)))
