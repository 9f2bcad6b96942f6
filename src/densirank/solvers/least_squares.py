"""A user's vector of least weighted squares when the items' are known, as ALS and ENMF have it."""

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
    """e_u of least Σ c (r − f_u(i))² + λ ‖e_u‖², in closed form (Hu et al. 2008).

    An observed pair has r = 1 and c = ``observed``, times its weight where the entries of the
    histories have ``weights``; any other has r = 0 and c = ``unobserved``.
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
