"""The scores of all rankable items, a block of users at a time.

Everything that is read out of a model goes through :func:`score_blocks`. The scores of a block fit
a budget in bytes, so memory never grows with users × items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import torch
from torch import Tensor

from densirank.linalg.csr import RowSource
from densirank.scores import Scorer

CPU_BUDGET_BYTES = 256 << 20
GPU_BUDGET_BYTES = 4 << 30
"""Memory for the scores of one block and what is computed from them; on a small GPU, an eighth."""

COPIES = 4
"""Largest number of tensors of the size of a block that exist at the same time."""


class Barring(TypedDict, total=False):
    """The items that are not rankable, as :func:`score_blocks` takes them."""

    seen: RowSource | None
    allowed: Tensor | None
    excluded: Tensor | None


class BlockOptions(Barring, total=False):
    """The options of :func:`score_blocks`, for functions that pass them on."""

    budget_bytes: int | None


def score_blocks(
    scorer: Scorer,
    users: Tensor,
    *,
    seen: RowSource | None = None,
    allowed: Tensor | None = None,
    excluded: Tensor | None = None,
    budget_bytes: int | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """(some users, their scores of all items), -inf for an item that is not rankable.

    An item is rankable if it is ``allowed`` (item indices; None: all), not ``excluded`` and not
    among the ``seen`` items of the user. The caller may change a block of scores; the next block
    reuses its memory.
    """
    barred = barred_items(scorer, allowed, excluded)
    any_barred = bool(barred.any())

    budget = default_budget(scorer.device) if budget_bytes is None else budget_bytes
    rows = min(rows_per_block(scorer.n_items, budget), len(users))
    memory = torch.empty(
        rows, scorer.n_items, device=scorer.device
    )  # allocated once: new pages cost time
    for block in torch.split(users, max(1, rows)):
        scores = scorer.scores(block, out=memory[: len(block)])
        if any_barred:
            scores[:, barred] = -torch.inf
        if seen is not None:
            own = seen.take(block)
            scores[own.row_of_entry, own.columns] = -torch.inf
        yield block, scores


def barred_items(scorer: Scorer, allowed: Tensor | None, excluded: Tensor | None) -> Tensor:
    """(items,) true for an item that is excluded or not allowed."""
    barred = torch.zeros(scorer.n_items, dtype=torch.bool, device=scorer.device)
    if allowed is not None:
        barred[:] = True
        barred[allowed] = False
    if excluded is not None:
        barred[excluded] = True
    return barred


def default_budget(device: torch.device) -> int:
    """The default number of bytes of a block; a GPU is most efficient with large blocks."""
    if device.type == "cpu":
        return CPU_BUDGET_BYTES
    return min(GPU_BUDGET_BYTES, torch.cuda.get_device_properties(device).total_memory // 8)


def rows_per_block(n_items: int, budget_bytes: int) -> int:
    """Users of a block."""
    return max(1, budget_bytes // (COPIES * 4 * max(1, n_items)))
