"""Folding in: people who were not there in training, ranked for by what they had.

The items stay as they are, and a user's vector follows from the user's items; which way depends on
the model. Nothing is trained again, and nobody else's vector changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.filters.item_filter import ItemFilter
from densirank.filters.low_pass import LowPass
from densirank.linalg.csr import KEPT, PartSource, Rows, SparsePart
from densirank.linalg.sparse import Matrix, best_entries, by_row_blocks
from densirank.methods import Method
from densirank.models import MODELS, Model
from densirank.risks.fused import FORMS
from densirank.risks.weighting import Weighting
from densirank.scores import VectorScorer
from densirank.settings import Settings
from densirank.solvers.least_squares import least_squares
from densirank.solvers.own_risk import least_own_risk


@dataclass(frozen=True)
class ItemSide:
    """What is kept of the items, besides their vectors, for people who come later."""

    counts: NDArray[np.int64]
    """(items,) how many users each had in training: its popularity."""
    messages: Tensor | None = None
    """(items, dim) what each passes on to its users, where the model is a graph's."""
    near: Matrix | None = None
    """(items, items) each one's nearest in the item–item filter, where the scores have one."""


@dataclass(frozen=True)
class Trained:
    """All of a fitted model that has to do with items: what folding in goes by."""

    method: Method
    settings: Settings
    scorer: VectorScorer
    items: ItemSide
    parameters: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def item_vectors(self) -> Tensor:
        """e_i as they were trained, without what a low-pass filter has put behind them."""
        vectors = self.scorer.item_vectors
        return vectors[:, : vectors.shape[1] - self._low_pass_rank]

    @property
    def low_pass(self) -> LowPass:
        """What stands behind the vectors of the items."""
        behind = self.scorer.item_vectors[:, self.item_vectors.shape[1] :]
        return LowPass(behind, torch.from_numpy(self.items.counts).to(behind))

    @property
    def _low_pass_rank(self) -> int:
        return self.settings.low_pass_rank if self.settings.low_pass_weight else 0


@dataclass(frozen=True)
class NewUsers:
    """Vectors of new people, and the part of them that training would have changed."""

    vectors: Tensor  # e_u, (users, dim)
    own: Tensor  # x_u: e_u itself, or the first layer's part of it


def fold_in(trained: Trained, histories: Interactions) -> VectorScorer:
    """How a fitted model scores for people with these histories (of the model's own items)."""
    scorer = trained.scorer
    if trained.method.model in ITEM_ITEM:
        nobody = scorer.item_vectors.new_zeros(histories.n_users, 0)
        part = _best_not_had(trained, histories)
        return VectorScorer(nobody, scorer.item_vectors, part, scorer.neighbours)
    users, items = new_users(trained, histories).vectors, trained.item_vectors
    filtered = _filtered(trained, histories, users)
    if trained.settings.low_pass_weight != 0:
        rows, weight = Rows.of(histories, scorer.device), trained.settings.low_pass_weight
        users, _ = trained.low_pass.beside(rows, users, items, weight)
    return VectorScorer(users, scorer.item_vectors, filtered)


def new_users(trained: Trained, histories: Interactions) -> NewUsers:
    """The vectors of people with these histories, or a sentence for a model that has no way."""
    name = trained.method.name
    if trained.method.model not in USER_VECTORS:
        raise InputError(
            f"{name} cannot fold users in: its user vectors do not follow from items alone; "
            "use update, or fit again"
        )
    with torch.no_grad():
        return USER_VECTORS[trained.method.model](trained, histories)


def without_users(parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters that belong to no user: what is true of other people as well."""
    return {k: v for k, v in parameters.items() if k.rpartition(".")[2] not in Model.per_user}


NOT_KEPT = "this model was saved without {}, which it takes; fit it again with this densirank"


def _free(trained: Trained, histories: Interactions) -> NewUsers:
    """Matrix factorisation: the vector of least own risk."""
    items = trained.item_vectors
    own = _least_own_risk(trained, histories, items.new_zeros(histories.n_users, items.shape[1]), 1)
    return NewUsers(own, own)


def _in_the_graph(trained: Trained, histories: Interactions) -> NewUsers:
    """LightGCN: what the items say, and the first-layer vector of least own risk beside it."""
    if trained.items.messages is None:
        raise InputError(NOT_KEPT.format("what its items pass on to users"))
    rows = Rows.of(histories, trained.scorer.device)
    degrees = rows.counts + int(trained.method.model == "lightgcn-loops")
    said = torch.zeros_like(trained.items.messages[:1]).repeat(len(rows), 1)
    said.index_add_(0, rows.row_of_entry, trained.items.messages[rows.columns])
    said *= degrees.clamp(min=1).to(said.dtype).rsqrt().unsqueeze(1)
    share = 1 / (trained.settings.final_layers + 1)
    own = _least_own_risk(trained, histories, said, share)
    return NewUsers(said + share * own, own)


def _least_own_risk(
    trained: Trained, histories: Interactions, given: Tensor, share: float
) -> Tensor:
    """By the method's own risk where it is a density's; by WD, close to all that rank pairs."""
    risk, settings = trained.method.risk, trained.settings
    weighting = Weighting.of_new_users(histories, trained.items.counts, settings, given.device)
    return least_own_risk(
        risk if risk in FORMS else "wd",
        trained.item_vectors,
        Rows.of(histories, given.device),
        weighting,
        given=given,
        share=share,
        l2=settings.l2,
        max_norm=settings.max_norm,
    )


def _least_squares(trained: Trained, histories: Interactions) -> NewUsers:
    """ALS and ENMF: a linear system for each user."""
    settings, items = trained.settings, trained.item_vectors
    rows = Rows.of(histories, items.device)
    if trained.method.model == "als":
        observed, unobserved, l2 = settings.confidence, 1.0, settings.l2
    else:
        observed, unobserved, l2 = 1.0, settings.unobserved_weight, settings.l2 / 2
    own = least_squares(items, rows, observed=observed, unobserved=unobserved, l2=l2)
    return NewUsers(own, own)


def _encoded(trained: Trained, histories: Interactions) -> NewUsers:
    """Mult-VAE: what the encoder makes of a history, whosever it is."""
    if not trained.parameters:
        raise InputError(NOT_KEPT.format("its encoder"))
    chance = torch.Generator().manual_seed(0)
    model = MODELS[trained.method.model](histories, trained.settings, chance)
    model.load_state_dict(dict(trained.parameters))
    users = model.vectors()[0].to(trained.scorer.device)
    return NewUsers(users, users)


def _the_same_for_all(trained: Trained, histories: Interactions) -> NewUsers:
    """Popularity: a one in the only dimension."""
    ones = trained.item_vectors.new_ones(histories.n_users, 1)
    return NewUsers(ones, ones)


USER_VECTORS: Mapping[str, Callable[[Trained, Interactions], NewUsers]] = {
    "mf": _free,
    "mf-critic": _free,
    "mf-generator": _free,
    "lightgcn": _in_the_graph,
    "lightgcn-loops": _in_the_graph,
    "enmf": _least_squares,
    "als": _least_squares,
    "mult-vae": _encoded,
    "popularity": _the_same_for_all,
}
"""How each model finds the vectors of new people."""

ITEM_ITEM: Mapping[str, Callable[[Matrix], Matrix]] = {
    "itemknn": lambda near: near.T.tocsr(),
    "ease": lambda near: near,
}
"""Models whose scores are R_u W, and W made of the neighbours that each item keeps."""


def _best_not_had(trained: Trained, histories: Interactions) -> SparsePart:
    """The best scores of a model of items by items."""
    scorer, had = trained.scorer, histories.matrix()
    assert scorer.neighbours is not None, "a model of items by items keeps its neighbours"
    weights = ITEM_ITEM[trained.method.model](scorer.neighbours.to_scipy(scorer.n_items))
    best = by_row_blocks(
        had, weights, lambda users, block: best_entries(block, KEPT, barred=had[users])
    )
    return SparsePart.of(best, scorer.device)


def _filtered(trained: Trained, histories: Interactions, vectors: Tensor) -> PartSource | None:
    """The item–item filter's part of the scores, where the fit gave it a weight."""
    weight, scorer = trained.settings.filter_weight, trained.scorer
    if weight == 0:
        return None
    if trained.items.near is None:
        raise InputError(NOT_KEPT.format("the item–item filter"))
    recency = trained.settings.filter_recency if histories.ordered else 0.0
    beside = ItemFilter.for_histories(histories, trained.items.near, scorer.device, recency)
    return beside.beside(vectors, trained.item_vectors, weight)


@dataclass(frozen=True)
class Histories:
    """People with the items a model knows; whoever has none of them is left out, and counted."""

    known: Interactions
    unknown_items: int
    left_out: int

    @classmethod
    def of(cls, data: Interactions, item_ids: Vocabulary) -> Histories:
        """The part of some interactions that a model with these items can use."""
        items = item_ids.indices(data.item_ids.ids)[data.items]
        known = items >= 0
        counts = np.bincount(data.users[known], minlength=data.n_users)
        if not known.any():
            raise InputError("the model knows none of these items, so nobody can be folded in")
        some = counts > 0
        return cls(
            Interactions(
                indptr=np.concatenate(([0], np.cumsum(counts[some]))),
                items=items[known].astype(np.int32),
                user_ids=Vocabulary.from_sorted(data.user_ids.ids[some]),
                item_ids=item_ids,
                ordered=data.ordered,
            ),
            unknown_items=len(np.unique(data.items[~known])),
            left_out=int((data.user_counts[~some] > 0).sum()),
        )
