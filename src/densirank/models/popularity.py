"""Popularity: the same ranking for all users, the baseline of personalised methods."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.models.base import Made, NewUsers, Trained
from densirank.settings import Settings


class Popularity(Made):
    """f_u(i) = log(count of i + 1): the density is the item counts plus one, normalised."""

    name = "popularity"
    folds_in = True

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        return cls(data)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Vectors with a 1 in their only dimension."""
        ones = trained.item_vectors.new_ones(histories.n_users, 1)
        return NewUsers(ones, ones)

    def __init__(self, data: Interactions) -> None:
        super().__init__(torch.ones(data.n_users, 1), log_popularity(data.item_counts))


def log_popularity(item_counts: NDArray[np.int64]) -> Tensor:
    """log(count + 1) of each item, as item vectors of one dimension."""
    return torch.from_numpy(item_counts + 1.0).to(torch.float32).log().unsqueeze(1)
