"""NGCF (Wang et al. 2019): graph convolution with transformed, non-linear messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, normalize

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.dimensions import Range, Space
from densirank.linalg.gather import distinct_rows
from densirank.linalg.propagation import Propagation, self_adjoint
from densirank.models.base import Factorisation, VectorSettings, dropped
from densirank.settings import Number, Settings, Whole, setting

SLOPE = 0.2
"""Negative slope of the leaky ReLU."""


@dataclass(frozen=True)
class NGCFSettings(VectorSettings):
    """NGCF."""

    searched: ClassVar[Space] = {"dropout": Range(0.0, 0.7)}

    layers: int = setting(3, Whole(0), "Propagation layers K.")
    dropout: float = setting(0.1, Number(at_most=0.99), "Dropout rate of each layer in training.")


class NGCF(Factorisation):
    """Normalised vectors of all layers, concatenated: e = [e⁽⁰⁾, e⁽¹⁾, …, e⁽ᴷ⁾].

    A layer adds the sum term LeakyReLU((Â + I) E W₁) and the interaction term
    LeakyReLU((Â E ⊙ E) W₂), with dropout on the result in training.
    """

    name = "ngcf"
    settings = NGCFSettings

    def __init__(
        self,
        data: Interactions,
        layers: int,
        dim: int,
        dropout: float,
        generator: torch.Generator,
    ) -> None:
        super().__init__(data.n_users, data.n_items, dim, generator)
        self._graph = Propagation(data, 1)
        self._dropout = dropout
        shape = (layers, dim, dim)
        self.sum_weights = nn.Parameter(torch.randn(shape, generator=generator) / dim**0.5)
        self.sum_biases = nn.Parameter(torch.zeros(layers, dim))
        self.product_weights = nn.Parameter(torch.randn(shape, generator=generator) / dim**0.5)
        self.product_biases = nn.Parameter(torch.zeros(layers, dim))

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, NGCFSettings)
        return cls(data, settings.layers, settings.dim, settings.dropout, generator)

    def prepare(self, hardware: Hardware) -> Self:
        self._graph.to(hardware.device)
        return super().prepare(hardware)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self._all_layers(None)

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        chance = torch.Generator(users.device).manual_seed(seed)
        user_vectors, item_vectors = self._all_layers(chance)
        return distinct_rows(user_vectors, users), distinct_rows(item_vectors, items)

    def _all_layers(self, chance: torch.Generator | None) -> tuple[Tensor, Tensor]:
        counts = [len(self.user_table), len(self.item_table)]
        nodes = torch.cat([self.user_table, self.item_table])
        layers = [nodes]
        weights = zip(
            self.sum_weights,
            self.sum_biases,
            self.product_weights,
            self.product_biases,
            strict=True,
        )
        for sum_weight, sum_bias, product_weight, product_bias in weights:
            heard = torch.cat(self_adjoint(self._graph.hop, *torch.split(nodes, counts)))
            summed = leaky_relu((heard + nodes) @ sum_weight + sum_bias, SLOPE)
            agreed = leaky_relu((heard * nodes) @ product_weight + product_bias, SLOPE)
            nodes = dropped(summed + agreed, self._dropout, chance)
            layers.append(normalize(nodes, dim=1))
        users, items = torch.split(torch.cat(layers, dim=1), counts)
        return users, items
