"""A critic and a generator that are trained against each other, as one model."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from densirank.device import Hardware
from densirank.models.base import Model


class Adversaries(Model):
    """A batch has the vectors of both, the critic's first; one of them ranks."""

    def __init__(self, critic: Model, generator: Model, generator_ranks: bool) -> None:
        super().__init__()
        self.critic, self.generator = critic, generator
        self._generator_ranks = generator_ranks

    def prepare(self, hardware: Hardware) -> Self:
        self.critic.prepare(hardware)
        self.generator.prepare(hardware)
        return super().prepare(hardware)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return (self.generator if self._generator_ranks else self.critic).vectors()

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        both = [
            player.batch_vectors(users, items, seed) for player in (self.critic, self.generator)
        ]
        user_vectors, item_vectors = (torch.cat(parts, dim=1) for parts in zip(*both, strict=True))
        return user_vectors, item_vectors

    def clip_(self, max_norm: float) -> None:
        """The critic alone, whose Lipschitz constant it bounds."""
        self.critic.clip_(max_norm)

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        return self.critic.regularised(users, items, n_candidates) + self.generator.regularised(
            users, items, n_candidates
        )
