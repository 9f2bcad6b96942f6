"""The scores of everything that could be listed, a block of users at a time.

Whatever is read out of a model goes through here: a block's scores fit a budget in bytes, so memory
never grows with users × items.
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
"""Memory for the scores of one block and what is made of them; of a small GPU, an eighth."""

COPIES = 4
"""Tensors of the size of a block that exist at the same time, at most."""


class Barring(TypedDict, total=False):
    """What is not rankable, as :func:`score_blocks` takes it."""

    seen: RowSource | None
    allowed: Tensor | None
    excluded: Tensor | None


class BlockOptions(Barring, total=False):
    """What :func:`score_blocks` takes besides a scorer and users, for those who hand it on."""

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

    Rankable is what is ``allowed`` (item indices; None: everything), not ``excluded``, and not
    among the user's ``seen`` items. A block of scores is the caller's to change until the next one
    is asked for, which takes its place.
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
        yield block, scores


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
