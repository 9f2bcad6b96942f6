"""What a model is to the rest of the library: vectors to be trained, clipped and penalised."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from densirank.device import Hardware
from densirank.errors import InputError
from densirank.linalg.csr import SparsePart
from densirank.linalg.gather import distinct_rows

INITIAL_SCALE = 0.1
"""Standard deviation of the vectors before training."""


class Model(nn.Module):
    """A score f_u(i) = e_u · e_i, however the vectors come about."""

    per_user: ClassVar[tuple[str, ...]] = ("user_table",)
    per_item: ClassVar[tuple[str, ...]] = ("item_table",)
    """Names of the parameters that have one row a user, or an item."""

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

    def prepare(self, hardware: Hardware) -> Self:
        """Move to where training happens, and choose how to compute there."""
        return self.to(hardware.device)

    def clip_(self, max_norm: float) -> None:
        """Norm clipping: bring every trainable vector back to ‖e‖ ≤ n̄, in place."""
        raise InputError(f"{type(self).__name__} knows no norm clipping: leave max_norm at none")

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


class Factorisation(Model):
    """One trainable vector for every user and every item; subclasses say what becomes of them."""

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
