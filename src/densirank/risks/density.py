"""The density risks, written as the paper writes them: dense, slow, easy to check.

Training uses :mod:`densirank.risks.fused`, which is tested for equality with this file.
"""

from __future__ import annotations

import torch
from torch import Tensor

from densirank.risks.positives import Positives


def pde_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """R̂(f, U_B, I_B), Eq. (risk-estimator): −Ê₊[f] + E_{p_f}[f], p_f a softmax over I_B.

    It is the negative log-likelihood plus KLD(p_f ‖ p0), up to a constant: the log-partition
    A(f_u), which neither could be without, cancels.
    """
    scores = user_vectors @ item_vectors[: positives.n_candidates].T  # (users, candidates)
    expected = (torch.softmax(scores + _log_base(positives), dim=1) * scores).sum(dim=1)
    own = positives.mean(positives.scores(user_vectors, item_vectors))
    return positives.user_mean(expected - own)


def wd_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """R̂_WD(f, U_B, I_B), Eq. (risk-estimator-ds): p_f lives on the unobserved I_B ∖ I_u⁺.

    A user who has had every candidate leaves nothing to estimate; the second term is then zero.
    """
    scores = user_vectors @ item_vectors[: positives.n_candidates].T  # (users, candidates)
    observed = _observed(positives, scores)
    empty = observed.all(dim=1, keepdim=True)
    logits = (scores + _log_base(positives)).masked_fill(observed & ~empty, -torch.inf)
    density = torch.softmax(logits, dim=1).masked_fill(observed, 0)
    expected = (density * scores).sum(dim=1)
    own = positives.mean(positives.scores(user_vectors, item_vectors))
    return positives.user_mean(expected - own)


def mle_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """Plain softmax maximum likelihood, without the KLD penalty: −Ê₊[f] + log Σ_{I_B} p0 exp f."""
    scores = user_vectors @ item_vectors[: positives.n_candidates].T  # (users, candidates)
    log_partition = torch.logsumexp(scores + _log_base(positives), dim=1)
    own = positives.mean(positives.scores(user_vectors, item_vectors))
    return positives.user_mean(log_partition - own)


def multinomial_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """Mult-VAE's likelihood (Liang et al. 2018): each positive counts once, not each user."""
    scores = user_vectors @ item_vectors[: positives.n_candidates].T  # (users, candidates)
    log_partition = torch.logsumexp(scores, dim=1)
    own = positives.mean(positives.scores(user_vectors, item_vectors))
    return (positives.counts * (log_partition - own)).mean()


def _log_base(positives: Positives) -> Tensor | float:
    """log p0 of the candidates, up to a constant, which no risk sees."""
    return 0.0 if positives.log_base is None else positives.log_base[: positives.n_candidates]


def _observed(positives: Positives, scores: Tensor) -> Tensor:
    """Whether a candidate is the user's own positive, (users, candidates) like the scores."""
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask[positives.among_candidates()] = True
    return mask
