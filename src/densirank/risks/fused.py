"""The density risks in one pass: loss and gradient together, one block of users at a time.

The gradient is closed-form. With p = p_f(·|u) over the candidates and E = E_p[f], the second term
of the penalised risks has ∂/∂f_u(i) = p_i (1 + f_i − E), and plain likelihood has p_i. So a block
of scores is made, turned into its own gradient and multiplied out into the vectors' gradients
while it is in cache: three matrix products, and never users × candidates in memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from densirank.risks.gradient import differentiable
from densirank.risks.positives import Positives

BLOCK_BYTES = {"cpu": 48 << 20, "cuda": 512 << 20}
"""Bytes of one block of scores: enough rows for products at full rate, little beside the rest."""

SAFE_SCORE = 60.0
"""exp of ±60, and sums of millions of them, are far inside float32: no shift needed below this."""

MASKED = -1e30
"""A score whose exp is exactly zero while 0 × it stays zero (with −inf that would be NaN)."""


class Workspace:
    """Two blocks of scores that one call leaves to the next: new memory costs a fault a page."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def blocks(self, rows: int, columns: int, like: Tensor) -> tuple[Tensor, Tensor]:
        """Two (rows, columns) tensors of any content."""
        needed = 2 * rows * columns
        if (
            self._memory.numel() < needed
            or self._memory.dtype != like.dtype
            or self._memory.device != like.device
        ):
            self._memory = like.new_empty(needed + needed // 8)  # the next batch may be larger
        one, other = self._memory[:needed].view(2, rows, columns)
        return one, other


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
    block_rows = _rows_per_block(n_users, n_candidates, users)
    scores_of_block, density_of_block = workspace.blocks(block_rows, n_candidates, users)
    terms = users.new_empty(n_users, 1)
    base = None
    if positives.log_base is not None:
        base = positives.log_base[:n_candidates].to(users.dtype)
    shifted = _needs_shift(users, candidates, base)
    observed = _Observed(positives, block_rows) if over_unobserved else None

    for start in range(0, n_users, block_rows):
        block = slice(start, min(start + block_rows, n_users))
        scores = scores_of_block[: block.stop - start]
        density = density_of_block[: block.stop - start]
        torch.mm(users[block], candidates.T, out=scores)
        if observed is not None:
            observed.mask_(scores, start)
        top = scores.amax(dim=1, keepdim=True) if shifted else scores.new_zeros(())
        if shifted:
            scores.sub_(top)
        if base is None:
            torch.exp(scores, out=density)
        else:
            torch.add(scores, base, out=density).exp_()
        partition = density.sum(dim=1, keepdim=True)
        if observed is not None:  # nothing unobserved left: an infinite partition, no density
            partition.masked_fill_(observed.everything[block], torch.inf)

        if penalised:
            scores.mul_(density)  # from here on w f, and then the slope w (f + 1 − E)
            expected = scores.sum(dim=1, keepdim=True) / partition
            slope = scores.addcmul_(density, 1 - expected)
            terms[block] = expected + top
        else:
            slope = density
            terms[block] = partition.log() + top
        scale = share[block] / partition
        user_gradient[block].addcmul_(slope @ candidates, scale)
        if candidate_gradient is not None:
            candidate_gradient.addmm_(slope.T, users[block] * scale)

    if observed is not None:
        terms.masked_fill_(observed.everything, 0)
    return terms.squeeze(1)


class _Observed:
    """Each user's own positives among the candidates, ready to be masked block by block."""

    def __init__(self, positives: Positives, block_rows: int) -> None:
        self.rows, self.columns = positives.among_candidates()
        counts = torch.zeros_like(positives.counts)
        counts.index_add_(0, self.rows, torch.ones_like(self.rows))
        self.everything = (counts == positives.n_candidates).unsqueeze(1)  # (users, 1)
        self._block_rows = block_rows
        self._bounds = [0, len(self.rows)]
        if block_rows < len(positives):  # one question to the device, not one a block
            starts = torch.arange(0, len(positives), block_rows, device=self.rows.device)
            self._bounds = [*torch.searchsorted(self.rows, starts).tolist(), len(self.rows)]

    def mask_(self, scores: Tensor, first_row: int) -> None:
        """Give the own positives of the users in a block a score whose exp is zero."""
        block = first_row // self._block_rows
        own = slice(self._bounds[block], self._bounds[block + 1])
        scores[self.rows[own] - first_row, self.columns[own]] = MASKED


def _rows_per_block(n_users: int, n_candidates: int, like: Tensor) -> int:
    """How many users' scores fit the block's bytes: at least one, at most all."""
    row_bytes = max(1, n_candidates) * like.element_size()
    return max(1, min(n_users, BLOCK_BYTES[like.device.type] // row_bytes))


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
