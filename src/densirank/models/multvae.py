"""Mult-VAE (Liang et al. 2018): a variational auto-encoder of user histories.

items → 3d → d (mean and variance) → 3d → items, with tanh in between. The last layer is linear, so
scores are dot products as in other models: the user vector is the decoder's last hidden layer with
a 1 appended, the item vector is the item's weights with its bias appended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.dimensions import Range, Space
from densirank.errors import InputError
from densirank.linalg.csr import Rows
from densirank.linalg.gather import distinct_rows
from densirank.models.base import NOT_KEPT, Model, NewUsers, Trained, VectorSettings, dropped
from densirank.settings import Number, Settings, TrainingSettings, setting

WIDENING = 3
"""Width of the hidden layers in units of d: 600 for the published 200."""


@dataclass(frozen=True)
class MultVAESettings(VectorSettings, TrainingSettings):
    """Mult-VAE."""

    searched: ClassVar[Space] = {"dropout": Range(0.0, 0.7), "l2": Range(0.1, 5.0, log=True)}

    dropout: float = setting(0.7, Number(at_most=0.99), "Dropout rate of a history in training.")


class MultVAE(Model):
    """Variational auto-encoder; user vectors depend on the history only, not on user parameters."""

    name = "mult-vae"
    settings = MultVAESettings
    folds_in = True

    per_user: ClassVar[tuple[str, ...]] = ()
    per_item: ClassVar[tuple[str, ...]] = ("input_table", "item_table", "item_bias")

    def __init__(
        self,
        data: Interactions,
        dim: int,
        dropout: float,
        annealing: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self._rows = Rows.of(data, torch.device("cpu"))
        self._dim, self._dropout, self._annealing = dim, dropout, annealing
        wide = WIDENING * dim

        def weights(rows: int, columns: int) -> nn.Parameter:
            scale = (2 / (rows + columns)) ** 0.5  # Glorot & Bengio 2010
            return nn.Parameter(scale * torch.randn(rows, columns, generator=generator))

        self.input_table = weights(data.n_items, wide)
        self.input_bias = nn.Parameter(torch.zeros(wide))
        self.code_weights = weights(wide, 2 * dim)
        self.code_bias = nn.Parameter(torch.zeros(2 * dim))
        self.hidden_weights = weights(dim, wide)
        self.hidden_bias = nn.Parameter(torch.zeros(wide))
        self.item_table = weights(data.n_items, wide)
        self.item_bias = nn.Parameter(torch.zeros(data.n_items, 1))
        self.register_buffer("steps", torch.zeros(()))
        self._divergence = torch.zeros(())

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        """Create the model; λ rises to its full weight over all iterations."""
        assert isinstance(settings, MultVAESettings)
        return cls(data, settings.dim, settings.dropout, settings.iterations, generator)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """Apply the trained encoder and decoder to new histories."""
        if not trained.parameters:
            raise InputError(NOT_KEPT.format("its encoder"))
        model = cls.of(histories, trained.settings, torch.Generator().manual_seed(0))
        model.load_state_dict(dict(trained.parameters))
        users = model.vectors()[0].to(trained.scorer.device)
        return NewUsers(users, users)

    def prepare(self, hardware: Hardware) -> Self:
        self._rows = Rows(
            self._rows.indptr.to(hardware.device), self._rows.columns.to(hardware.device)
        )
        return super().prepare(hardware)

    def vectors(self) -> tuple[Tensor, Tensor]:
        mean, _ = self._encode(self._rows, None)
        return self._decode(mean), torch.cat([self.item_table, self.item_bias], dim=1)

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Vectors of a batch: dropout on the history, code sampled from N(mean, variance)."""
        chance = torch.Generator(users.device).manual_seed(seed)
        mean, log_variance = self._encode(self._rows.take(users), chance)
        noise = torch.randn(mean.shape, generator=chance, device=mean.device)
        code = mean + noise * (log_variance / 2).exp()
        divergence = mean.square() + log_variance.exp() - 1 - log_variance
        self._divergence = divergence.sum(dim=1).mean() / 2
        self.get_buffer("steps").add_(1)
        item_vectors = torch.cat([self.item_table, self.item_bias], dim=1)
        return self._decode(code), distinct_rows(item_vectors, items)

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        """KLD(q(z|x) ‖ N(0, 1)) of the batch; its weight rises to λ during training."""
        return self._divergence * (self.get_buffer("steps") / self._annealing).clamp(max=1)

    def _encode(self, rows: Rows, chance: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """(mean, log variance) of each history's code."""
        lengths = rows.counts.to(self.input_table.dtype)
        values = dropped(lengths.rsqrt()[rows.row_of_entry], self._dropout, chance)
        summed = embedding_bag(
            rows.columns, self.input_table, rows.indptr[:-1], mode="sum", per_sample_weights=values
        )
        code = torch.tanh(summed + self.input_bias) @ self.code_weights + self.code_bias
        mean, log_variance = code.chunk(2, dim=1)
        return mean, log_variance

    def _decode(self, code: Tensor) -> Tensor:
        hidden = torch.tanh(code @ self.hidden_weights + self.hidden_bias)
        return torch.cat([hidden, hidden.new_ones(len(hidden), 1)], dim=1)
