"""What one process holds of the data: its own users with all they had."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.world import World


@dataclass(frozen=True)
class Share:
    """The pairs of one process's users, and how often everything occurs in the pairs of all."""

    world: World
    own: Interactions  # its users alone, numbered from 0, with the items of everybody
    first_user: int  # the number of its first user among all
    user_counts: NDArray[np.int64]  # (users,) of everybody
    item_counts: NDArray[np.int64]  # (items,) over everybody's pairs

    @classmethod
    def of(cls, world: World, data: Interactions) -> Share:
        """This process's share of data that every process has, or the part that it has read.

        In a world of one process that is all of the data.
        """
        if data.partial:
            user_counts = torch.from_numpy(data.user_counts).to(world.device)
            item_counts = torch.from_numpy(data.item_counts).to(world.device)
            return cls(
                world,
                data,
                data.first_user,
                world.gathered(user_counts).cpu().numpy(),
                world.sum_(item_counts).cpu().numpy(),
            )
        users = world.own(data.n_users)
        own = data if world.size == 1 else of_users(data, users)
        return cls(world, own, users.start, data.user_counts, data.item_counts)

    @property
    def n_users(self) -> int:
        """How many users there are in all."""
        return len(self.user_counts)

    def own_users(self, users: Tensor) -> Tensor:
        """Which of these users (numbers among all) are this process's, by their own numbers."""
        if self.world.size == 1:
            return users
        own = users - self.first_user
        return own[(own >= 0) & (own < self.own.n_users)]


def of_users(data: Interactions, users: range) -> Interactions:
    """The pairs of consecutive users, who are numbered from 0 then; items keep their numbers."""
    bounds = data.indptr[users.start : users.stop + 1]
    pairs = slice(bounds[0], bounds[-1])
    return replace(
        data,
        indptr=bounds - bounds[0],
        items=data.items[pairs],
        user_ids=Vocabulary.from_sorted(data.user_ids.ids[users.start : users.stop]),
        timestamps=None if data.timestamps is None else data.timestamps[pairs],
        weights=None if data.weights is None else data.weights[pairs],
    )
