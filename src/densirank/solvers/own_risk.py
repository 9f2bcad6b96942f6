"""A user's vector when the items' are known: a small problem of the user's own.

No user's part of a risk depends on another user once the items' vectors are fixed. So people who
were not there in training get the vector that training would have led them to, alone or many at a
time, and who else is in the batch makes no difference.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from densirank.linalg.csr import Rows
from densirank.risks.fused import of_each_user
from densirank.risks.positives import Positives
from densirank.risks.tiles import Workspace
from densirank.risks.weighting import PLAIN, Weighting

STEPS = 10
"""Evaluations of the risk for each user: on Gowalla, later ones move a vector by a thousandth."""

CANDIDATES = 1 << 14
"""Items that a density lives on, at most: evenly spaced ones of a larger catalogue."""

SAMPLED = 1 << 11
"""Of them, those that the length of the first step is estimated from."""

LONGEST = 1e3
"""Bound of a step's length, in units of the first one, either way."""


def least_own_risk(
    risk: str,
    item_vectors: Tensor,
    histories: Rows,
    weighting: Weighting = PLAIN,
    *,
    given: Tensor,
    share: float,
    l2: float,
    max_norm: float | None,
    steps: int = STEPS,
) -> Tensor:
    """x_u, (users, dim), with R̂_u(given_u + share · x_u) + λ/2 ‖x_u‖² at its least, ‖x_u‖ ≤ n̄.

    R̂_u is the user's part of Eq. (pde-obj), its candidates all items or evenly spaced ones.
    Projected gradient steps from x_u = 0, each user's of a length of their own (Barzilai & Borwein
    1988); of the points that were tried, the best is kept.
    """
    items, positives = _arranged(histories, len(item_vectors))
    item_vectors = item_vectors[items]
    log_base = None if weighting.log_base is None else weighting.log_base[items]
    positives = replace(positives, weights=weighting.pairs, log_base=log_base)
    workspace = Workspace()
    x = torch.zeros_like(given)
    best, least = x, x.new_full((len(x), 1), torch.inf)
    first_length = 1 / (l2 + share**2 * _curvature(item_vectors[:SAMPLED]))
    length = torch.full_like(least, first_length)
    before: tuple[Tensor, Tensor] | None = None
    for _ in range(steps):
        own_risk, slope = of_each_user(risk, given + share * x, item_vectors, positives, workspace)
        value = own_risk.unsqueeze(1) + l2 / 2 * x.square().sum(dim=1, keepdim=True)
        gradient = share * slope + l2 * x
        best = torch.where(value < least, x, best)
        least = torch.minimum(value, least)
        if before is not None:
            moved, turned = x - before[0], gradient - before[1]
            length = _secant_length(moved, turned, first_length)
        before = (x, gradient)
        x = clipped(x - length * gradient, max_norm)
    return best


def clipped(vectors: Tensor, max_norm: float | None) -> Tensor:
    """The vectors, those that are longer than ``max_norm`` shortened to it."""
    if max_norm is None:
        return vectors
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors * (max_norm / norms).clamp(max=1)


def _arranged(histories: Rows, n_items: int) -> tuple[Tensor, Positives]:
    """(the items that count, candidates first; which of them are whose positives).

    Candidates depend on the catalogue alone, and a shuffle of fixed seed puts them in any order.
    """
    device = histories.columns.device
    count = min(CANDIDATES, n_items)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0)).to(device)
    candidates = order * n_items // count
    place = torch.full((n_items,), -1, device=device)
    place[candidates] = torch.arange(count, device=device)
    outside = torch.unique(histories.columns[place[histories.columns] < 0])
    place[outside] = torch.arange(len(outside), device=device) + count
    positives = Positives(
        histories.indptr, place[histories.columns], count, all_are_candidates=len(outside) == 0
    )
    return torch.cat([candidates, outside]), positives


def _curvature(item_vectors: Tensor) -> float:
    """Of a density risk where all scores are equal, in its steepest direction at least: 2 ‖Cov‖."""
    centred = item_vectors - item_vectors.mean(dim=0)
    covariance = centred.T @ centred / len(item_vectors)
    return 2 * float(torch.linalg.matrix_norm(covariance))


def _secant_length(moved: Tensor, turned: Tensor, usual: float) -> Tensor:
    """‖Δx‖² / |Δx · Δg|, each user's; the usual length where neither moved."""
    squares = moved.square().sum(dim=1, keepdim=True)
    products = (moved * turned).sum(dim=1, keepdim=True).abs()
    lengths = squares / products.clamp(min=torch.finfo(products.dtype).tiny)
    lengths = lengths.clamp(usual / LONGEST, usual * LONGEST)
    return torch.where(squares > 0, lengths, usual)
