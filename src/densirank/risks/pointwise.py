"""The whole-data squared risk of ENMF (Chen et al. 2020): every pair counts, none is sampled."""

from __future__ import annotations

from torch import Tensor

from densirank.risks.positives import Positives


def squared_risk(
    user_vectors: Tensor, item_vectors: Tensor, positives: Positives, unobserved_weight: float
) -> Tensor:
    """w Σ_{I_B} f² + Σ_{I_u⁺} ((1 − w) f² − 2 f), the mean over users.

    It is Σ c (y − f)² over all pairs up to a constant, c being 1 where y = 1 and w where y = 0. The
    sum over all candidates is a quadratic form of their d × d moments, e_uᵀ (Σ e_i e_iᵀ) e_u, so
    nothing of size users × candidates exists.
    """
    candidates = item_vectors[: positives.n_candidates]
    moments = candidates.T @ candidates  # (dim, dim)
    everything = ((user_vectors @ moments) * user_vectors).sum()
    scores = positives.scores(user_vectors, item_vectors)
    observed = ((1 - unobserved_weight) * scores.square() - 2 * scores).sum()
    return (unobserved_weight * everything + observed) / len(positives)
