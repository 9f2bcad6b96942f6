"""How f_u(i) is made: one file a model, and here the names methods call them by."""

from collections.abc import Callable, Mapping

import torch

from densirank.data.interactions import Interactions
from densirank.models.base import Model
from densirank.models.lightgcn import LightGCN
from densirank.models.mf import MatrixFactorisation
from densirank.models.popularity import Popularity
from densirank.settings import Settings

ModelBuilder = Callable[[Interactions, Settings, torch.Generator], Model]

MODELS: Mapping[str, ModelBuilder] = {
    "mf": lambda data, settings, generator: MatrixFactorisation(
        data.n_users, data.n_items, settings.dim, generator
    ),
    "lightgcn": lambda data, settings, generator: LightGCN(
        data, settings.layers, settings.dim, generator
    ),
    "popularity": lambda data, settings, generator: Popularity(data),
}

__all__ = ["MODELS", "Model"]
