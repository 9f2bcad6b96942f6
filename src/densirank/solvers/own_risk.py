"""User vectors for fixed item vectors: one small optimisation problem per user.

If the item vectors are fixed, a user's part of a risk does not depend on other users. Users not
seen in training therefore get the vector that training would have converged to, independent of the
other users they are folded in with.
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
"""Evaluations of the risk per user: on Gowalla, later steps change a vector by a thousandth."""

CANDIDATES = 1 << 14
"""Most candidate items of a density; from a larger catalogue, evenly spaced ones are taken."""

SAMPLED = 1 << 11
"""Candidate items from which the length of the first step is estimated."""

LONGEST = 1e3
"""Largest ratio of a step length to the first one, and of the first one to it."""


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
    """The x_u, (users, dim), ‖x_u‖ ≤ n̄, that minimise R̂_u(given_u + share · x_u) + λ/2 ‖x_u‖².

    R̂_u is the user's part of Eq. (pde-obj), with all or evenly spaced items as candidates. The
    solver takes projected gradient steps from x_u = 0, with a step length per user (Barzilai &
    Borwein 1988), and returns the best point that was evaluated.
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
    """The vectors with their norms clipped to ``max_norm``."""
    if max_norm is None:
        return vectors
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors * (max_norm / norms).clamp(max=1)


def _arranged(histories: Rows, n_items: int) -> tuple[Tensor, Positives]:
    """(items of the problem, candidates first; the positives of each user among them).

    The candidates depend only on the catalogue; their order is a shuffle with a fixed seed.
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
    """Upper bound on the curvature of a density risk where all scores are equal: 2 ‖Cov‖."""
    centred = item_vectors - item_vectors.mean(dim=0)
    covariance = centred.T @ centred / len(item_vectors)
    return 2 * float(torch.linalg.matrix_norm(covariance))


def _secant_length(moved: Tensor, turned: Tensor, usual: float) -> Tensor:
    """‖Δx‖² / |Δx · Δg| per user; the usual length where neither changed."""
    squares = moved.square().sum(dim=1, keepdim=True)
    products = (moved * turned).sum(dim=1, keepdim=True).abs()
    lengths = squares / products.clamp(min=torch.finfo(products.dtype).tiny)
    lengths = lengths.clamp(usual / LONGEST, usual * LONGEST)
    return torch.where(squares > 0, lengths, usual)
