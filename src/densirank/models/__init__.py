"""Models of the scores f_u(i): one file per model, with its settings and its fold-in."""

from densirank.models.adversaries import RankingCritic, RankingGenerator
from densirank.models.als import AlternatingLeastSquares
from densirank.models.base import Model
from densirank.models.ease import Ease
from densirank.models.enmf import ENMF
from densirank.models.itemknn import ItemKNN
from densirank.models.lightgcn import LightGCN, LightGCNWithLoops
from densirank.models.mf import MatrixFactorisation
from densirank.models.multvae import MultVAE
from densirank.models.ngcf import NGCF
from densirank.models.popularity import Popularity

MODELS: dict[str, type[Model]] = {
    model.name: model
    for model in (
        MatrixFactorisation,
        LightGCN,
        LightGCNWithLoops,
        NGCF,
        ENMF,
        MultVAE,
        RankingCritic,
        RankingGenerator,
        Popularity,
        ItemKNN,
        Ease,
        AlternatingLeastSquares,
    )
}
"""All models by name, as methods refer to them."""

__all__ = ["MODELS", "Model"]
