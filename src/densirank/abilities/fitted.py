"""What is left of a fit, and what everything that reads it has in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from densirank.csr import RowsOnDemand
from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.data.vocabulary import Ids, Vocabulary
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.fitting import Fitted
from densirank.hardware import Hardware, resolve_hardware
from densirank.indexing.building import MeasuredIndex
from densirank.methods import Method
from densirank.new_data.folding import ItemSide, Trained
from densirank.ranking.blocks import Barring
from densirank.ranking.calibration import CalibratedScorer, Calibration
from densirank.ranking.index import Index
from densirank.ranking.people import Choice, Kind, People, unknown_users
from densirank.ranking.scores import VectorScorer
from densirank.risks import HALF_PRECISION
from densirank.settings import Settings


class FittedRanker:
    """The state of a ranker: what it was asked for, and after fitting what it found."""

    method: Method
    settings: Settings
    seed: int
    device: str
    precision: str

    interactions_: Interactions
    scorer_: VectorScorer
    items_: ItemSide
    parameters_: dict[str, Tensor]
    training_: dict[str, Any]
    calibration_: Calibration | None

    _kind: Kind = "known"
    _index: MeasuredIndex | None
    _index_at: tuple[Path, str] | None
    _indexed_vectors: Tensor | None

    def _hardware(self) -> Hardware:
        return resolve_hardware(
            self.device,
            self.precision,
            self.settings.dim,
            has_kernels=self.method.risk in HALF_PRECISION,
        )

    def _keep(self, data: Interactions, fitted: Fitted) -> Self:
        self.interactions_ = data
        self.scorer_, self.items_ = fitted.scorer, fitted.items
        self.parameters_, self.training_ = fitted.parameters, fitted.training
        self.calibration_ = None
        return self

    def _trained(self) -> Trained:
        return Trained(self.method, self.settings, self.scorer_, self.items_, self.parameters_)

    def _density(self) -> CalibratedScorer:
        item_counts = torch.from_numpy(self.items_.counts)
        return CalibratedScorer(self.scorer_, self.calibration_ or Calibration(), item_counts)

    def people(self, rows: Tensor) -> People:
        """The users at these indices, for whoever makes lists in a form of its own."""
        return People(
            self._kind,
            self.interactions_.user_ids,
            rows,
            self._density(),
            self.scorer_,
            RowsOnDemand(self.interactions_, self.scorer_.device),
            self.required_index,
        )

    def unknown_users(self, ids: Vocabulary) -> People:
        """Users this ranker does not know, who get what is popular."""
        return unknown_users(ids, self.items_.counts, self.scorer_.device)

    def required_index(self) -> Index:
        """The index of the item vectors, or a sentence that says how to get one."""
        raise NotImplementedError

    def _choice(
        self,
        k: int,
        filter_seen: bool,
        items: Ids | None,
        exclude: Ids | None,
        *,
        seed: int | None = None,
        temperature: float = 1.0,
        approximate: bool = False,
    ) -> Choice:
        check_k(k)
        return Choice(
            k,
            filter_seen,
            self._item_indices(items),
            self._item_indices(exclude),
            None if seed is None else checked_seed(seed),
            checked_temperature(temperature),
            approximate,
        )

    def held_out(self, test: Any) -> HeldOut:
        """Test interactions in this model's terms, for whoever measures it in another way."""
        return HeldOut(
            as_interactions(test), self.interactions_, self.scorer_.device, self.items_.counts
        )

    def _user_indices(self, ids: Ids | None) -> Tensor:
        data = self.interactions_
        indices = np.arange(data.n_users) if ids is None else data.user_ids.known(ids, "user")
        return torch.from_numpy(indices).to(self.scorer_.device)

    def _barring(self, filter_seen: bool, items: Ids | None, exclude: Ids | None) -> Barring:
        return {
            "seen": RowsOnDemand(self.interactions_, self.scorer_.device) if filter_seen else None,
            "allowed": self._item_indices(items),
            "excluded": self._item_indices(exclude),
        }

    def _item_indices(self, ids: Ids | None) -> Tensor | None:
        if ids is None:
            return None
        indices = self.interactions_.item_ids.known(ids, "item")
        return torch.from_numpy(indices).to(self.scorer_.device)


def checked_seed(seed: int) -> int:
    """A seed that generators take, or a sentence."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


def checked_temperature(temperature: float) -> float:
    """A temperature that leaves exponentials in range, or a sentence."""
    if not 1e-6 <= temperature <= 1e6:
        raise InputError(f"temperature must be between 0.000001 and 1000000, not {temperature}")
    return temperature


def as_interactions(source: Any) -> Interactions:
    """Interactions, or anything that can be read as such."""
    return source if isinstance(source, Interactions) else read(source)


def check_k(k: int) -> None:
    """Refuse lists of no length."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
