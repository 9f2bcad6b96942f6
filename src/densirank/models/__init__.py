"""How f_u(i) is made: one file a model, and here the names methods call them by."""

from collections.abc import Callable, Mapping

import torch

from densirank.data.interactions import Interactions
from densirank.models.adversaries import Adversaries
from densirank.models.als import AlternatingLeastSquares
from densirank.models.base import Model
from densirank.models.ease import Ease
from densirank.models.enmf import ENMF
from densirank.models.itemknn import ItemKNN
from densirank.models.lightgcn import LightGCN
from densirank.models.mf import MatrixFactorisation
from densirank.models.multvae import MultVAE
from densirank.models.ngcf import NGCF
from densirank.models.popularity import Popularity
from densirank.settings import Settings

ModelBuilder = Callable[[Interactions, Settings, torch.Generator], Model]


def _mf(data: Interactions, settings: Settings, generator: torch.Generator) -> Model:
    return MatrixFactorisation(data.n_users, data.n_items, settings.dim, generator)


MODELS: Mapping[str, ModelBuilder] = {
    "mf": _mf,
    "lightgcn": lambda data, settings, generator: LightGCN(
        data, settings.layers, settings.dim, generator, final_layers=settings.inference_layers
    ),
    "lightgcn-loops": lambda data, settings, generator: LightGCN(
        data, settings.layers, settings.dim, generator, True, settings.inference_layers
    ),
    "ngcf": lambda data, settings, generator: NGCF(
        data, settings.layers, settings.dim, settings.dropout, generator
    ),
    "enmf": lambda data, settings, generator: ENMF(
        data.n_users, data.n_items, settings.dim, settings.dropout, generator
    ),
    "mult-vae": lambda data, settings, generator: MultVAE(
        data, settings.dim, settings.dropout, settings.iterations, generator
    ),
    "mf-critic": lambda data, settings, generator: Adversaries(
        _mf(data, settings, generator), _mf(data, settings, generator), generator_ranks=False
    ),
    "mf-generator": lambda data, settings, generator: Adversaries(
        _mf(data, settings, generator), _mf(data, settings, generator), generator_ranks=True
    ),
    "popularity": lambda data, settings, generator: Popularity(data),
    "itemknn": lambda data, settings, generator: ItemKNN(data, settings.neighbours, settings.l2),
    "ease": lambda data, settings, generator: Ease(data, settings.l2, settings.neighbours),
    "als": AlternatingLeastSquares,
}

__all__ = ["MODELS", "Model"]
