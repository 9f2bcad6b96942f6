"""The same ranking for everybody, by popularity: the baseline a personal ranking has to beat."""

from __future__ import annotations

import torch

from densirank.data.interactions import Interactions
from densirank.models.base import Made


class Popularity(Made):
    """f_u(i) = log(count of i + 1): its density is the popularity itself, smoothed by one."""

    def __init__(self, data: Interactions) -> None:
        counts = torch.from_numpy(data.item_counts + 1.0).to(torch.float32)
        super().__init__(torch.ones(data.n_users, 1), counts.log().unsqueeze(1))
