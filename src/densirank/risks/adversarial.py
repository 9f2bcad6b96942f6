"""Two players: a critic f and a generator q that learns to fool it.

The vectors hold both, the critic's in the first half of the dimensions and the generator's in the
second; q is the softmax of the generator's scores over I_B. Each player's term treats the
other as given, so one gradient step is a step of both.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import softplus

from densirank.risks.base import RiskSpec, in_blocks
from densirank.risks.positives import Positives


def irwgan_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """Eq. (wass-obj): min over q of KLD(q ‖ p0) + the Wasserstein distance that f witnesses.

    The generator's best answer to f is p_f itself, Section 4.1: PDE is this game with the
    generator left out.
    """
    judged, log_q, own = _players(user_vectors, item_vectors, positives)
    critic = (log_q.detach().exp() * judged).sum(dim=1) - positives.mean(own)
    generator = (log_q.exp() * (log_q - judged.detach())).sum(dim=1)
    return (critic + generator).mean()


def irgan_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """IRGAN for implicit feedback (Wang et al. 2017): f tells positives from what q proposes.

    The discriminator minimises −Ê₊ log σ(f) − E_q log(1 − σ(f)); the generator maximises
    E_q log(1 + exp f), its expectation taken over all of I_B instead of sampled.
    """
    judged, log_q, own = _players(user_vectors, item_vectors, positives)
    discriminator = positives.mean(softplus(-own))
    discriminator = discriminator + (log_q.detach().exp() * softplus(judged)).sum(dim=1)
    generator = -(log_q.exp() * softplus(judged.detach())).sum(dim=1)
    return (discriminator + generator).mean()


def _players(
    user_vectors: Tensor, item_vectors: Tensor, positives: Positives
) -> tuple[Tensor, Tensor, Tensor]:
    """(the critic's scores, log q, both (users, candidates); the critic's scores of positives)."""
    critic_users, generator_users = user_vectors.chunk(2, dim=1)
    critic_items, generator_items = item_vectors.chunk(2, dim=1)
    candidates = slice(0, positives.n_candidates)
    judged = critic_users @ critic_items[candidates].T
    log_q = torch.log_softmax(generator_users @ generator_items[candidates].T, dim=1)
    return judged, log_q, positives.scores(critic_users, critic_items)


IRGAN = RiskSpec("irgan", lambda settings: in_blocks(irgan_risk))
IRWGAN = RiskSpec("irwgan", lambda settings: in_blocks(irwgan_risk))
