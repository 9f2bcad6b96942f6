"""How near items are to each other: N, by the rows in which they stand together.

N_ij = n_i^-a n_j^-b Σ_r n_r^-c √(w_ri w_rj) over the rows r that have both. The rows are
everybody's histories and, where nearness in time counts, also the stretches of some items in a row
that these are made of. w are the weights of the pairs, one on average in each history. Each item
keeps its nearest ones, so memory grows with the items and not with their pairs.

With the powers of the ``graph`` that LightGCN is propagated over, R̃ = D_U^-½ R D_I^-½, the scores
R N are those of R̃ R̃ᵀ R̃, the linear filter of GF-CF (Shen et al. 2021). ``mild`` ones hold popular
items and long rows back less: better alone, and where data are few. With a ``ridge`` the sum over
rows is replaced by the weight that item i has where j is told by its nearest ones: best where most
items are rare (docs/method.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights, stretches
from densirank.filters.ridge import ridge_weights
from densirank.linalg.products import highest_of_product
from densirank.linalg.sparse import Matrix, best_entries, narrow, scaled

FilterKind = Literal["mild", "graph", "ridge"]
FILTER_KINDS: tuple[FilterKind, ...] = get_args(FilterKind)
"""What makes items near each other."""

NEIGHBOURS = 200
"""Entries of N that an item keeps."""

TOGETHER = 4096
"""Items of a history that stand together: the most recent ones, or evenly spaced ones where no
order is known. A row of n items takes n² products, so one history of 20,000 items took a minute.
Of the data sets of the results, none has a longer history than this."""


class Powers(NamedTuple):
    """How far a popular item had, a popular item wanted and a long row are held back."""

    had: float
    wanted: float
    row: float


POWERS: Mapping[FilterKind, Powers] = {
    "mild": Powers(had=0.5, wanted=0.4, row=0.5),
    "graph": Powers(had=1.0, wanted=0.5, row=1.0),
    "ridge": Powers(had=0.0, wanted=0.2, row=0.5),
}


def nearness(
    data: Interactions, device: torch.device, span: int = 0, kind: FilterKind = "mild"
) -> Matrix:
    """N, (items, items): each item's nearest ones, and how near they are."""
    powers = POWERS[kind]
    counts = np.maximum(data.item_counts, 1)
    rows = _rows(data, span, powers.row)
    wanted = counts**-powers.wanted
    if kind == "ridge":
        near = scaled(ridge_weights(rows, counts, device), by_column=wanted)
        return narrow(best_entries(near, NEIGHBOURS))
    left = scaled(rows.T.tocsr(), by_row=counts**-powers.had)
    return highest_of_product(left, scaled(rows, by_column=wanted), NEIGHBOURS, device)


def standing_together(data: Interactions) -> NDArray[np.bool_] | slice:
    """The pairs of which each history has at most :data:`TOGETHER`; a slice where that is all."""
    counts = data.user_counts
    if counts.max() <= TOGETHER:
        return slice(None)
    lengths, positions = np.repeat(counts, counts), data.positions
    if data.ordered:
        recent: NDArray[np.bool_] = positions >= lengths - TOGETHER
        return recent
    reached = positions * TOGETHER // lengths
    spaced: NDArray[np.bool_] = (positions + 1) * TOGETHER // lengths > reached
    return spaced | (lengths <= TOGETHER)


def _rows(data: Interactions, span: int, power: float) -> Matrix:
    """X, (rows, items): n_r^-c/2 where an item stands in a row, so that XᵀX has the sums.

    Times √w where pairs have weights: on the diagonal of XᵀX an item counts as it does in a mean.
    """
    kept, own = standing_together(data), pair_weights(data)
    rows, items = data.users[kept], data.items[kept]
    roots = None if own is None else np.sqrt(own[kept])
    if span > 0:
        rows = np.concatenate([rows, data.n_users + stretches(data, min(span, TOGETHER))])
        items = np.concatenate([items, data.items])
        roots = None if own is None else np.concatenate([roots, np.sqrt(own)])
    lengths = np.bincount(rows)
    weights = lengths[rows] ** (-power / 2)
    if roots is not None:
        weights *= roots
    return narrow(
        sparse.csr_array(
            (weights.astype(np.float32), (rows, items)), shape=(len(lengths), data.n_items)
        )
    )
