"""log p(i|u) over the rankable items, its entropy H, and the effective number of items exp(H)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.ranking.blocks import BlockOptions, score_blocks
from densirank.scores import Scorer

Floats = NDArray[np.float32]

MAX_NUMBERS = 1 << 26
"""Largest number of log-probabilities of one call: 256 MiB."""


@dataclass(frozen=True, eq=False)
class Density:
    """p(i|u) of some users over the allowed items; an item that is not rankable has -inf.

    The entropy is in nats. ``effective_items`` is the number of equally likely items with the same
    entropy. A user without a rankable item has entropy 0 and 0 effective items.
    """

    user_ids: NDArray[Any]  # (users,)
    item_ids: NDArray[Any]  # (items,)
    log_probabilities: Floats  # (users, items)
    entropy: Floats  # (users,)
    effective_items: Floats  # (users,)

    @classmethod
    def of(
        cls, blocks: Iterable[DensityBlock], data: Interactions, users: Tensor, items: Tensor
    ) -> Density:
        """Join the blocks of these users, restricted to these items."""
        parts = [
            (log_probabilities[:, items].cpu(), entropy.cpu(), effective_items.cpu())
            for _, log_probabilities, entropy, effective_items in blocks
        ]
        return cls(
            data.user_ids.ids[users.cpu().numpy()],
            data.item_ids.ids[items.cpu().numpy()],
            *(torch.cat(part).numpy() for part in zip(*parts, strict=True)),
        )


class DensityBlock(NamedTuple):
    """The densities of a block of users over the whole catalogue."""

    users: Tensor  # (users,)
    log_probabilities: Tensor  # (users, items)
    entropy: Tensor  # (users,)
    effective_items: Tensor  # (users,)


def density_blocks(
    logits: Scorer, users: Tensor, **barring: Unpack[BlockOptions]
) -> Iterator[DensityBlock]:
    """The density of each user, renormalised over the rankable items, a block of users at a time.

    ``logits`` is a scorer whose softmax is the density.
    """
    for block, rows in score_blocks(logits, users, **barring):
        nothing = torch.isneginf(rows.amax(dim=1, keepdim=True))  # (users, 1)
        log_probabilities = rows.log_softmax(dim=1).masked_fill_(nothing, -torch.inf)
        probabilities = log_probabilities.exp()
        entropy = torch.special.entr(probabilities, out=probabilities).sum(dim=1)
        effective = entropy.exp().masked_fill_(nothing.squeeze(1), 0)
        yield DensityBlock(block, log_probabilities, entropy, effective)


def check_size(n_users: int, n_items: int) -> None:
    """Raise an error if a table of probabilities is too large to return at once.

    >>> check_size(1_000, 40_000)
    >>> check_size(30_000, 40_000)
    Traceback (most recent call last):
    densirank.errors.InputError: the density of 30,000 users over 40,000 items is 1,200,000,000 \
numbers, above the limit of 67,108,864: ask for at most 1,677 users at a time or for fewer items; \
entropy() has no such limit
    """
    if n_users * n_items > MAX_NUMBERS:
        raise InputError(
            f"the density of {n_users:,} users over {n_items:,} items is {n_users * n_items:,} "
            f"numbers, above the limit of {MAX_NUMBERS:,}: ask for at most "
            f"{max(1, MAX_NUMBERS // n_items):,} users at a time or for fewer items; entropy() "
            "has no such limit"
        )
