"""LightGCN (He et al. 2020): vectors smoothed over the user–item graph.

The final vectors are linear in the trainable first layer, E = P E⁽¹⁾ with
P = (I + Â + … + Â^K) / (K + 1) and Â = D^-½ A D^-½. P is symmetric, so the backward pass applies
the same propagation and no activations need to be stored.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.share import Share
from densirank.device import Hardware
from densirank.errors import InputError
from densirank.linalg.csr import Rows
from densirank.linalg.propagation import (
    Propagation,
    ShardedPropagation,
    inverse_root_degrees,
    self_adjoint,
)
from densirank.models.base import NOT_KEPT, Factorisation, NewUsers, Trained, VectorSettings
from densirank.models.sharded import Sharded
from densirank.settings import Optimiser, Settings, Whole, setting

if TYPE_CHECKING:
    from densirank.models.neighbours import NeighbourSums


@dataclass(frozen=True)
class LightGCNSettings(VectorSettings):
    """LightGCN."""

    layers: int = setting(3, Whole(0), "Propagation layers K.")
    inference_layers: int | None = setting(
        None,
        Whole(0, (None,)),
        "Propagation layers after training; none: as many as in training.",
    )

    @property
    def final_layers(self) -> int:
        """Propagation layers after training."""
        return self.layers if self.inference_layers is None else self.inference_layers


class LightGCN(Factorisation):
    """f_u(i) = e_u · e_i with the first-layer vectors averaged over K layers of neighbours."""

    name = "lightgcn"
    settings = LightGCNSettings
    optimiser: ClassVar[Optimiser] = "whitened"  # the graph couples all vectors anyway
    folds_in = True
    self_loops: ClassVar[bool] = False

    def __init__(
        self,
        data: Interactions,
        layers: int,
        dim: int,
        generator: torch.Generator,
        final_layers: int | None = None,
    ) -> None:
        super().__init__(data.n_users, data.n_items, dim, generator)
        self.final_layers = layers if final_layers is None else final_layers
        self.propagation: Propagation | NeighbourSums = Propagation(
            data, layers, self_loops=self.self_loops
        )
        self._keep_item_scale(data.item_counts + self.self_loops)

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, LightGCNSettings)
        return cls(data, settings.layers, settings.dim, generator, settings.inference_layers)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Items' messages summed, plus the first-layer vector that minimises the own risk."""
        assert isinstance(trained.settings, LightGCNSettings)
        if trained.items.messages is None:
            raise InputError(NOT_KEPT.format("what its items pass on to users"))
        rows = Rows.of(histories, trained.scorer.device)
        degrees = rows.counts + int(cls.self_loops)
        said = torch.zeros_like(trained.items.messages[:1]).repeat(len(rows), 1)
        said.index_add_(0, rows.row_of_entry, trained.items.messages[rows.columns])
        said *= degrees.clamp(min=1).to(said.dtype).rsqrt().unsqueeze(1)
        share = 1 / (trained.settings.final_layers + 1)
        own = trained.least_own_risk(histories, said, share)
        return NewUsers(said + share * own, own)

    def prepare(self, hardware: Hardware) -> Self:
        if isinstance(self.propagation, Propagation):
            self.propagation.to(hardware.device)
            if hardware.half and not self.propagation.self_loops:
                from densirank.models.neighbours import NeighbourSums

                self.propagation = NeighbourSums(*self.propagation.edges(), self.propagation.layers)
        return super().prepare(hardware)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self_adjoint(self.propagation, self.user_table, self.item_table)

    def final_vectors(self) -> tuple[Tensor, Tensor]:
        return self._propagated(self.final_layers)

    def messages(self) -> Tensor | None:
        """n_i^-½ s_i / (K + 1), for e_u = (x_u + Σ s_i / √(n_u n_i)) / (K + 1).

        s is the state of Horner's rule before its last layer: K times the output of P with K − 1
        layers. With self-loops, the user's own term is not included.
        """
        layers = self.final_layers
        if layers == 0:
            return torch.zeros_like(self.item_table)
        _, items = self._propagated(layers - 1)
        return items * self.get_buffer("item_scale").unsqueeze(1) * (layers / (layers + 1))

    def _keep_item_scale(self, degrees: NDArray[np.int64]) -> None:
        scale = torch.from_numpy(inverse_root_degrees(degrees)).float()
        self.register_buffer("item_scale", scale, persistent=False)

    def _propagated(self, layers: int) -> tuple[Tensor, Tensor]:
        """P with another number of layers, applied to the trainable vectors."""
        operator = copy(self.propagation)
        operator.layers = layers
        return operator(self.user_table, self.item_table)


class ShardedLightGCN(Sharded, LightGCN):
    """LightGCN sharded by row: the rows of one process and the edges of its users."""

    def __init__(
        self,
        share: Share,
        settings: Settings,
        generator: torch.Generator,
        users_per_batch: int,
    ) -> None:
        super().__init__(share, settings, generator, users_per_batch)
        self.final_layers = settings.final_layers
        self.propagation = ShardedPropagation(share, settings.layers)
        own = share.world.own(share.own.n_items)
        self._keep_item_scale(share.item_counts[own.start : own.stop])


LightGCN.sharded = ShardedLightGCN


class LightGCNWithLoops(LightGCN):
    """LightGCN with self-loops, as in DREGN-CF."""

    name = "lightgcn-loops"
    optimiser = "adam"
    self_loops = True
