"""Adversarial training: a critic and a generator trained against each other, as one model."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.models.base import Model, NewUsers, Trained, VectorSettings
from densirank.models.mf import MatrixFactorisation
from densirank.settings import Settings


class Adversaries(Model):
    """Two factorisations; batch vectors concatenate the critic's and the generator's. One ranks."""

    settings = VectorSettings
    folds_in = True
    generator_ranks: ClassVar[bool]

    def __init__(self, critic: Model, generator: Model) -> None:
        super().__init__()
        self.critic, self.generator = critic, generator

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        """Create two matrix factorisations."""
        critic = MatrixFactorisation.of(data, settings, generator)
        return cls(critic, MatrixFactorisation.of(data, settings, generator))

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        return MatrixFactorisation.fold_in(trained, histories)

    def prepare(self, hardware: Hardware) -> Self:
        self.critic.prepare(hardware)
        self.generator.prepare(hardware)
        return super().prepare(hardware)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return (self.generator if self.generator_ranks else self.critic).vectors()

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        both = [
            player.batch_vectors(users, items, seed) for player in (self.critic, self.generator)
        ]
        user_vectors, item_vectors = (torch.cat(parts, dim=1) for parts in zip(*both, strict=True))
        return user_vectors, item_vectors

    def clip_(self, max_norm: float) -> None:
        """Clip only the critic, which bounds its Lipschitz constant."""
        self.critic.clip_(max_norm)

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        return self.critic.regularised(users, items, n_candidates) + self.generator.regularised(
            users, items, n_candidates
        )


class RankingCritic(Adversaries):
    """Adversarial model that ranks with its critic."""

    name = "mf-critic"
    generator_ranks = False


class RankingGenerator(Adversaries):
    """Adversarial model that ranks with its generator."""

    name = "mf-generator"
    generator_ranks = True
