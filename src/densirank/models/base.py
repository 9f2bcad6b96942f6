"""What a model is to the rest of the library: vectors to be trained, clipped and penalised.

A model also says how people who come after training are folded in: their vectors follow from
their items alone, the items stay as they are, and nobody else's vector changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.errors import InputError
from densirank.filters.combine import Filters, FilterSettings
from densirank.filters.item_filter import ItemFilter
from densirank.filters.low_pass import LowPass
from densirank.linalg.csr import Rows, SparsePart
from densirank.linalg.gather import distinct_rows
from densirank.linalg.sparse import Matrix
from densirank.risks.base import RiskSpec
from densirank.risks.weighting import Weighting
from densirank.scores import VectorScorer
from densirank.settings import Optimiser, Settings, TrainingSettings, Whole, setting
from densirank.solvers.own_risk import least_own_risk

if TYPE_CHECKING:
    from densirank.models.sharded import Sharded

INITIAL_SCALE = 0.1
"""Standard deviation of the vectors before training."""
NOT_KEPT = "this model was saved without {}, which it takes; fit it again with this densirank"


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

    name: str
    """Of the method."""
    model: type[Model]
    risk: RiskSpec | None
    settings: Settings
    scorer: VectorScorer
    items: ItemSide
    parameters: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def item_vectors(self) -> Tensor:
        """e_i as they were trained, without what a low-pass filter appends."""
        vectors, own = self.scorer.item_vectors, FilterSettings.of(self.settings)
        rank = own.low_pass_rank if own.low_pass_weight else 0
        return vectors[:, : vectors.shape[1] - rank]

    def filters(self, histories: Interactions) -> Filters:
        """What is added to the scores of people with these histories."""
        own, device = FilterSettings.of(self.settings), self.scorer.device
        item_filter = low_pass = None
        if own.filter_weight != 0:
            if self.items.near is None:
                raise InputError(NOT_KEPT.format("the item–item filter"))
            recency = own.filter_recency if histories.ordered else 0.0
            near = self.items.near
            item_filter = ItemFilter.for_histories(histories, near, device, recency)
        if own.low_pass_weight != 0:
            appended = self.scorer.item_vectors[:, self.item_vectors.shape[1] :]
            counts = torch.from_numpy(self.items.counts).to(appended)
            low_pass = LowPass(appended, counts, scaled=True)
        return Filters(own, histories, device, item_filter, low_pass)

    def least_own_risk(self, histories: Interactions, given: Tensor, share: float) -> Tensor:
        """The vectors x_u of least own risk where e_u = given_u + share · x_u.

        By the method's own risk where it is a density's; by WD, close to all that rank pairs.
        """
        assert isinstance(self.settings, TrainingSettings)
        density = self.risk is not None and self.risk.is_density
        weighting = Weighting.of_new_users(
            histories, self.items.counts, self.settings, given.device
        )
        return least_own_risk(
            self.risk.name if self.risk is not None and density else "wd",
            self.item_vectors,
            Rows.of(histories, given.device),
            weighting,
            given=given,
            share=share,
            l2=self.settings.l2,
            max_norm=self.settings.max_norm,
        )


@dataclass(frozen=True)
class NewUsers:
    """Vectors of new people, and the part of them that training would have changed."""

    vectors: Tensor  # e_u, (users, dim)
    own: Tensor  # x_u: e_u itself, or the first layer's part of it


class Model(nn.Module):
    """A score f_u(i) = e_u · e_i, however the vectors come about."""

    name: ClassVar[str]
    """What lists of methods call it."""
    settings: ClassVar[type[Settings]] = Settings
    """Its own settings."""
    optimiser: ClassVar[Optimiser] = "adam"
    """The optimiser its methods start with. Free vectors that move in all directions at the same
    pace overfit a small data set, where Adam finds what is shared first."""
    takes_filters: ClassVar[bool] = True
    """Whether a filter can be added to its scores."""
    folds_in: ClassVar[bool] = False
    """Whether :meth:`fold_in` has a way."""
    uses_weights: ClassVar[bool] = False
    """Whether the weights of the pairs count where the model is made. Where it is trained, the risk
    says so."""
    sharded: ClassVar[type[Sharded] | None] = None
    """Its form for several processes, each of which has its rows; None: one process trains it.

    It is not inherited: the vectors of a subclass may be made in another way.
    """
    per_user: ClassVar[tuple[str, ...]] = ("user_table",)
    per_item: ClassVar[tuple[str, ...]] = ("item_table",)
    """Names of the parameters that have one row a user, or an item."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.sharded = None

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        """The model of these data, not trained yet; ``settings`` hold its own ones."""
        raise NotImplementedError

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """The vectors of people with these histories (of the model's own items)."""
        raise InputError(
            f"{trained.name} cannot fold users in: its user vectors do not follow from items "
            "alone; use update, or fit again"
        )

    @classmethod
    def fold_in_sparse(cls, trained: Trained, histories: Interactions) -> SparsePart | None:
        """What such people's scores have besides the dot product; see :meth:`sparse_part`."""
        return None

    def vectors(self) -> tuple[Tensor, Tensor]:
        """(user vectors, item vectors), each (count, dim), as functions of the parameters."""
        raise NotImplementedError

    def final_vectors(self) -> tuple[Tensor, Tensor]:
        """The vectors to rank with, where they are not those that training looks at."""
        return self.vectors()

    def batch_vectors(self, users: Tensor, items: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """The vectors of a batch while training; a model with chance in it draws from ``seed``."""
        user_vectors, item_vectors = self.vectors()
        return distinct_rows(user_vectors, users), distinct_rows(item_vectors, items)

    def sparse_part(self) -> SparsePart | None:
        """Scores that some items of some users have besides the dot product, where there are."""
        return None

    def neighbours(self) -> SparsePart | None:
        """Each item's most similar items, where the angles between vectors do not say them."""
        return None

    def messages(self) -> Tensor | None:
        """What each item says to those who have it, where a graph carries it, (items, dim).

        The items' part of e_u is the sum of what the user's n_u items say, divided by √n_u.
        """
        return None

    def kept(self) -> dict[str, Tensor]:
        """What folding in goes by besides vectors, of a model that is made and not trained."""
        return {}

    def prepare(self, hardware: Hardware) -> Self:
        """Move to where training happens, and choose how to compute there."""
        return self.to(hardware.device)

    def clip_(self, max_norm: float) -> None:
        """Norm clipping: bring every trainable vector back to ‖e‖ ≤ n̄, in place."""
        raise InputError(f"{type(self).__name__} does not support norm clipping: set max_norm=none")

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        """The L2 term of the objective for a batch, Eq. (pde-obj), without its weight λ.

        Only the first ``n_candidates`` of the items count, where that is said.
        """
        raise NotImplementedError


def dropped(values: Tensor, share: float, chance: torch.Generator | None) -> Tensor:
    """Values of which a share is set to zero and the rest enlarged to make up; none by no chance.

    ``torch.nn.functional.dropout`` has the same effect but takes no generator.
    """
    if chance is None or share == 0:
        return values
    kept = torch.rand(values.shape, generator=chance, device=values.device) >= share
    return values * kept / (1 - share)


class Made(Model):
    """Vectors that are known from the start: there is nothing to train."""

    def __init__(self, user_vectors: Tensor, item_vectors: Tensor) -> None:
        super().__init__()
        self.register_buffer("user_vectors", user_vectors)
        self.register_buffer("item_vectors", item_vectors)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.get_buffer("user_vectors"), self.get_buffer("item_vectors")


@dataclass(frozen=True)
class VectorSettings(Settings):
    """Models with a vector for every user and item."""

    dim: int = setting(64, Whole(1), "Length d of the vectors.")


class Factorisation(Model):
    """One trainable vector for every user and every item; subclasses say what becomes of them."""

    settings = VectorSettings

    def __init__(self, n_users: int, n_items: int, dim: int, generator: torch.Generator) -> None:
        super().__init__()
        self.user_table = nn.Parameter(
            INITIAL_SCALE * torch.randn(n_users, dim, generator=generator)
        )
        self.item_table = nn.Parameter(
            INITIAL_SCALE * torch.randn(n_items, dim, generator=generator)
        )

    @torch.no_grad()
    def clip_(self, max_norm: float) -> None:
        for table in (self.user_table, self.item_table):
            norms = torch.linalg.vector_norm(table, dim=1, keepdim=True)
            table.mul_((max_norm / norms).clamp_(max=1))

    def regularised(
        self, users: Tensor, items: Tensor, n_candidates: int | Tensor | None = None
    ) -> Tensor:
        """½ (mean ‖e_u‖² over the batch's users + mean ‖e_i‖² over its candidates)."""
        user_part = distinct_rows(self.user_table, users).square().sum() / len(users)
        n_counted = len(items) if n_candidates is None else n_candidates
        counted = torch.arange(len(items), device=items.device) < n_counted
        squares = distinct_rows(self.item_table, items).square().sum(dim=1)
        return (user_part + (squares * counted).sum() / n_counted) / 2
