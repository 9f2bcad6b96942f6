"""The same ranking for everybody, by popularity: the baseline a personal ranking has to beat."""

from __future__ import annotations

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.models.base import Model


class Popularity(Model):
    """f_u(i) = log(count of i + 1): its density is the popularity itself, smoothed by one."""

    def __init__(self, data: Interactions) -> None:
        super().__init__()
        counts = torch.from_numpy(data.item_counts + 1.0).to(torch.float32)
        self.register_buffer("user_vectors", torch.ones(data.n_users, 1))
        self.register_buffer("item_vectors", counts.log().unsqueeze(1))

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.get_buffer("user_vectors"), self.get_buffer("item_vectors")
