"""Weighted least squares for user vectors with fixed item vectors, as in ALS and ENMF."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from densirank.linalg.csr import Rows


def least_squares(
    item_vectors: Tensor,
    histories: Rows,
    *,
    observed: float,
    unobserved: float,
    l2: float,
    weights: Tensor | None = None,
) -> Tensor:
    """The e_u that minimise Σ c (r − f_u(i))² + λ ‖e_u‖², in closed form (Hu et al. 2008).

    Observed pairs have r = 1 and c = ``observed``, multiplied by their ``weights`` (one per entry
    of the histories) if given. All other pairs have r = 0 and c = ``unobserved``.
    """
    identity = torch.eye(
        item_vectors.shape[1], dtype=item_vectors.dtype, device=item_vectors.device
    )
    everything = unobserved * (item_vectors.T @ item_vectors) + l2 * identity
    solved = item_vectors.new_zeros(len(histories), item_vectors.shape[1])
    bounds = histories.indptr.tolist()
    for user, (start, stop) in enumerate(pairwise(bounds)):
        own = item_vectors[histories.columns[start:stop]]
        if weights is None:
            matrix = everything + (observed - unobserved) * (own.T @ own)
            solved[user] = torch.linalg.solve(matrix, observed * own.sum(dim=0))
        else:
            confidence = observed * weights[start:stop]
            matrix = everything + (own.T * (confidence - unobserved)) @ own
            solved[user] = torch.linalg.solve(matrix, confidence @ own)
    return solved
