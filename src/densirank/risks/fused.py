"""The density risks at once: loss and gradient together, one block of users at a time.

The gradient is closed-form. With p = p_f(·|u) over the candidates and E = E_p[f], the second term
of the penalised risks has ∂/∂f_u(i) = p_i (1 + f_i − E), and plain likelihood has p_i. So a block
of scores is made, turned into its own gradient and multiplied out into the vectors' gradients,
tile by tile: three matrix products, and never users × candidates in memory. Scores are counted in
bits, f · log₂e, because powers of two take a CPU three quarters of the time that those of e do.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from densirank.risks.base import differentiable
from densirank.risks.positives import Positives
from densirank.risks.tiles import Tiling, Workspace

LOG2_E = math.log2(math.e)
"""Bits of a score of one: e = 2 ** LOG2_E."""

SAFE_SCORE = 60.0
"""exp of ±60, and sums of millions of them, are far inside float32: no shift needed below this."""

MASKED = -1e30
"""A score whose exp is exactly zero while 0 × it stays zero (with −inf that would be NaN)."""


def pde_risk(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    workspace: Workspace | None = None,
) -> Tensor:
    """R̂ of Eq. (risk-estimator); equals :func:`densirank.risks.density.pde_risk`."""
    return _apply(user_vectors, item_vectors, positives, True, False, workspace)


def wd_risk(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    workspace: Workspace | None = None,
) -> Tensor:
    """R̂_WD of Eq. (risk-estimator-ds); equals :func:`densirank.risks.density.wd_risk`."""
    return _apply(user_vectors, item_vectors, positives, True, True, workspace)


def mle_risk(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    workspace: Workspace | None = None,
) -> Tensor:
    """Softmax maximum likelihood; equals :func:`densirank.risks.density.mle_risk`."""
    return _apply(user_vectors, item_vectors, positives, False, False, workspace)


FORMS = {"pde": (True, False), "wd": (True, True), "mle": (False, False)}
"""Whether a risk has the KLD penalty, and whether p_f lives on unobserved items alone."""


def of_each_user(
    risk: str,
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    workspace: Workspace,
) -> tuple[Tensor, Tensor]:
    """(each user's own risk, its gradient by that user's vector); the items stay as they are."""
    penalised, over_unobserved = FORMS[risk]
    averaging = positives.averaging(len(item_vectors), user_vectors.dtype)
    mean_positives = averaging @ item_vectors  # (users, dim)
    gradient = -mean_positives
    second_terms = _second_term(
        user_vectors,
        item_vectors[: positives.n_candidates],
        positives,
        gradient,
        None,
        gradient.new_ones(len(positives), 1),
        workspace,
        penalised=penalised,
        over_unobserved=over_unobserved,
    )
    own = second_terms - (user_vectors * mean_positives).sum(dim=1)
    return own, gradient


def _apply(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    penalised: bool,
    over_unobserved: bool,
    workspace: Workspace | None,
) -> Tensor:
    memory = workspace or Workspace()

    def compute(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        averaging = positives.averaging(len(items), users.dtype)
        mean_positives = averaging @ items  # (users, dim)
        share = _shares_of_users(positives, users.dtype)
        user_gradient = -share * mean_positives
        item_gradient = -(averaging.t() @ (share * users))
        second_terms = _second_term(
            users,
            items[: positives.n_candidates],
            positives,
            user_gradient,
            item_gradient[: positives.n_candidates],
            share,
            memory,
            penalised=penalised,
            over_unobserved=over_unobserved,
        )
        loss = positives.user_mean(second_terms - (users * mean_positives).sum(dim=1))
        return loss, user_gradient, item_gradient

    return differentiable(compute, user_vectors, item_vectors)


def _second_term(
    users: Tensor,
    candidates: Tensor,
    positives: Positives,
    user_gradient: Tensor,
    candidate_gradient: Tensor | None,
    share: Tensor,
    workspace: Workspace,
    *,
    penalised: bool,
    over_unobserved: bool,
) -> Tensor:
    """E_p[f] (penalised) or A(f) of each user; adds the gradient of their mean in place.

    ``share`` is what each user counts in that mean, (users, 1).
    """
    n_users, n_candidates = len(users), len(candidates)
    base = None
    if positives.log_base is not None:
        base = positives.log_base[:n_candidates].to(users.dtype)
    shifted = _needs_shift(users, candidates, base)
    base_in_bits = None if base is None else base * LOG2_E
    tiling = Tiling.of(n_users, n_candidates, users, whole_rows=shifted)
    observed = _Observed(positives, tiling) if over_unobserved else None
    terms = users.new_empty(n_users, 1)
    top = peak = users.new_zeros(())

    for start in range(0, n_users, tiling.rows):
        block = slice(start, min(start + tiling.rows, n_users))
        in_bits = users[block] * LOG2_E
        tiles = workspace.tiles(len(in_bits), n_candidates, tiling.columns, users)
        partition, expected = users.new_zeros(2, len(in_bits), 1)
        for items, scores, density in tiles:
            torch.mm(in_bits, candidates[items].T, out=scores)
            if observed is not None:
                observed.mask_(scores, start, items.start)
            if shifted:  # and so the only tile
                top = scores.amax(dim=1, keepdim=True)
                scores.sub_(top)
            if base_in_bits is None:
                torch.exp2(scores, out=density)
            else:
                torch.add(scores, base_in_bits[items], out=density)
                if shifted:  # log p0 may be steep where the scores are not
                    peak = density.amax(dim=1, keepdim=True)
                    density.sub_(peak)
                density.exp2_()
            partition += density.sum(dim=1, keepdim=True)
            if penalised:
                scores.mul_(density)  # from here on w f, and then the slope w (f + 1 − E)
                expected += scores.sum(dim=1, keepdim=True)
        if observed is not None:  # nothing unobserved left: an infinite partition, no density
            partition.masked_fill_(observed.everything[block], torch.inf)

        scale = share[block] / partition
        if penalised:
            expected /= partition
            scale /= LOG2_E
            terms[block] = (expected + top) / LOG2_E
        else:
            terms[block] = partition.log() + (top + peak) / LOG2_E
        by_user = torch.zeros_like(in_bits)
        scaled_users = users[block] * scale
        for items, scores, density in reversed(tiles):  # those made last are still in cache
            slope = scores.addcmul_(density, LOG2_E - expected) if penalised else density
            by_user.addmm_(slope, candidates[items])
            if candidate_gradient is not None:
                candidate_gradient[items].addmm_(slope.T, scaled_users)
        user_gradient[block].addcmul_(by_user, scale)

    if observed is not None:
        terms.masked_fill_(observed.everything, 0)
    return terms.squeeze(1)


class _Observed:
    """Each user's own positives among the candidates, ready to be masked tile by tile."""

    def __init__(self, positives: Positives, tiling: Tiling) -> None:
        rows, columns = positives.among_candidates()
        counts = torch.zeros_like(positives.counts)
        counts.index_add_(0, rows, torch.ones_like(rows))
        self.everything = (counts == positives.n_candidates).unsqueeze(1)  # (users, 1)
        self._tiling = tiling
        self._tiles_a_block = -(-int(positives.n_candidates) // tiling.columns)
        n_tiles = self._tiles_a_block * -(-len(positives) // tiling.rows)
        self._bounds = [0, len(rows)]
        if n_tiles > 1:  # one question to the device, not one a tile
            tile = rows // tiling.rows * self._tiles_a_block + columns // tiling.columns
            tile, order = tile.sort(stable=True)
            rows, columns = rows[order], columns[order]
            starts = torch.arange(n_tiles, device=rows.device)
            self._bounds = [*torch.searchsorted(tile, starts).tolist(), len(rows)]
        self._rows, self._columns = rows % tiling.rows, columns % tiling.columns

    def mask_(self, scores: Tensor, first_user: int, first_item: int) -> None:
        """Give the own positives of the users in a tile a score whose exp is zero."""
        block, column = first_user // self._tiling.rows, first_item // self._tiling.columns
        tile = block * self._tiles_a_block + column
        own = slice(self._bounds[tile], self._bounds[tile + 1])
        scores[self._rows[own], self._columns[own]] = MASKED


def _shares_of_users(positives: Positives, dtype: torch.dtype) -> Tensor:
    """What each user counts in the mean over users, (users, 1)."""
    weights = positives.user_weights
    if weights is None:
        weights = positives.indptr.new_ones(len(positives))
    return (weights.to(dtype) / len(positives)).unsqueeze(1)


def _needs_shift(users: Tensor, candidates: Tensor, base: Tensor | None) -> bool:
    """Whether exp could leave the number range, by Cauchy–Schwarz: |f| ≤ max‖e_u‖ · max‖e_i‖.

    Norm clipping keeps scores small, which saves the CPU two passes over every block. A GPU
    always shifts: there a pass costs less than asking it for the answer.
    """
    if users.device.type != "cpu":
        return True
    bound = _largest_norm(users) * _largest_norm(candidates)
    if base is not None:
        bound = bound + base.abs().max()
    return not float(bound) <= SAFE_SCORE


def _largest_norm(vectors: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(vectors, dim=1)
    return norms.max()
