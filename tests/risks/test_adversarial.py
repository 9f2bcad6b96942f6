from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import approx_fprime
from scipy.special import softmax
from torch import Tensor

from densirank.risks import Positives, Risk, density
from densirank.risks.adversarial import irgan_risk, irwgan_risk

Floats = NDArray[np.float64]
Owned = NDArray[np.bool_]
RandomBatch = Callable[..., tuple[Tensor, Tensor, Owned, Positives]]
Term = Callable[[Floats, Floats, Owned], float]
"""(the critic's scores of all items, the generator's of the candidates, who had what) → its sum."""


def _sigmoid(score: float) -> float:
    return 1 / (1 + float(np.exp(-score)))


def _irgan_discriminator(judged: Floats, proposed: Floats, owned: Owned) -> float:
    """Wang et al. 2017, the discriminator's cross-entropy, with expectations taken exactly."""
    total = 0.0
    for f, g, mine in zip(judged, proposed, owned, strict=True):
        q, own = softmax(g), np.flatnonzero(mine)
        total += sum(-np.log(_sigmoid(f[item])) for item in own) / len(own)
        total += sum(-share * np.log(1 - _sigmoid(f[item])) for item, share in enumerate(q))
    return total


def _irgan_generator(judged: Floats, proposed: Floats, owned: Owned) -> float:
    """Wang et al. 2017: the generator minimises E_q log(1 − D)."""
    return sum(
        float(share * np.log(1 - _sigmoid(f[item])))
        for f, g in zip(judged, proposed, strict=True)
        for item, share in enumerate(softmax(g))
    )


def _irwgan_critic(judged: Floats, proposed: Floats, owned: Owned) -> float:
    """Eq. (wass-obj): what the critic takes for the distance, negated."""
    return sum(
        float(softmax(g) @ f[: len(g)] - f[mine].mean())
        for f, g, mine in zip(judged, proposed, owned, strict=True)
    )


def _irwgan_generator(judged: Floats, proposed: Floats, owned: Owned) -> float:
    """Eq. (max-min-irwgan), KLD(q ‖ p0) − E_q[f], less the constant of a uniform p0."""
    return sum(
        float(softmax(g) @ (np.log(softmax(g)) - f[: len(g)]))
        for f, g in zip(judged, proposed, strict=True)
    )


GAMES = {
    "irgan": (irgan_risk, _irgan_discriminator, _irgan_generator),
    "irwgan": (irwgan_risk, _irwgan_critic, _irwgan_generator),
}
both_games = pytest.mark.parametrize(
    ("risk", "of_critic", "of_generator"), GAMES.values(), ids=GAMES.keys()
)


@both_games
@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3), st.booleans())
def test_the_value_is_both_players_terms(
    random_batch: RandomBatch,
    risk: Risk,
    of_critic: Term,
    of_generator: Term,
    seed: int,
    n_outside: int,
    saturated: bool,
) -> None:
    users, items, owned, positives = random_batch(seed, n_outside=n_outside, saturated=saturated)
    u, v = users.detach().numpy(), items.detach().numpy()
    judged, proposed = u[:, :2] @ v[:, :2].T, u[:, 2:] @ v[:8, 2:].T
    expected = of_critic(judged, proposed, owned) + of_generator(judged, proposed, owned)
    actual = risk(users, items, positives).item()
    np.testing.assert_allclose(actual, expected / len(u), rtol=1e-8, atol=1e-10)


@both_games
def test_each_player_moves_by_its_own_term_alone(
    random_batch: RandomBatch, risk: Risk, of_critic: Term, of_generator: Term
) -> None:
    users, items, owned, positives = random_batch(n_outside=2)
    start = torch.cat([users, items]).detach().numpy()  # (users and items, both players)

    def term(half: Floats, player: Term, columns: slice) -> float:
        table = start.copy()
        table[:, columns] = half.reshape(len(start), -1)
        u, v = table[:5], table[5:]
        return player(u[:, :2] @ v[:, :2].T, u[:, 2:] @ v[:8, 2:].T, owned) / 5

    critic, generator = slice(0, 2), slice(2, 4)
    gradients = torch.autograd.grad(risk(users, items, positives), (users, items))
    actual = torch.cat(gradients).numpy()
    for player, columns in ((of_critic, critic), (of_generator, generator)):
        expected = approx_fprime(start[:, columns].ravel(), term, 1e-7, player, columns)
        np.testing.assert_allclose(actual[:, columns].ravel(), expected, atol=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(0, 3))
def test_a_generator_that_is_the_density_leaves_the_pde_risk_and_does_not_move(
    random_batch: RandomBatch, seed: int, n_outside: int
) -> None:
    """Section 4.1: q* = p_f, where Eq. (wgan-risk) is Eq. (nll-risk)."""
    users, items, _, positives = random_batch(seed, n_outside=n_outside)
    one = [table.detach().requires_grad_() for table in (users, items)]
    both = [torch.cat([table, table], dim=1).detach().requires_grad_() for table in one]
    game = irwgan_risk(both[0], both[1], positives)
    log_partition = torch.logsumexp(one[0] @ one[1][:8].T, dim=1).mean()
    critic = game + log_partition  # the generator's term is −A(f) at its best
    torch.testing.assert_close(critic, density.pde_risk(one[0], one[1], positives))

    likelihood = density.mle_risk(one[0], one[1], positives)
    expected = torch.autograd.grad(likelihood, one)  # E_q with q as given has the gradient of A
    for gradient, of_critic in zip(torch.autograd.grad(game, both), expected, strict=True):
        critics, generators = gradient.chunk(2, dim=1)
        torch.testing.assert_close(critics, of_critic, rtol=1e-9, atol=1e-12)
        torch.testing.assert_close(generators, torch.zeros_like(generators), rtol=0, atol=1e-12)


def test_a_generator_that_is_trained_against_a_critic_becomes_its_density(
    random_batch: RandomBatch,
) -> None:
    """Section 4.1, by descent: unit vectors for users let the generator be any q_u at all."""
    _, scores, _, positives = random_batch(n_users=4, n_candidates=7, dim=4)
    unit_vectors = torch.eye(4, dtype=torch.float64)
    users = torch.cat([unit_vectors, unit_vectors], dim=1)
    logits = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)).double()
    p_f = torch.softmax(scores.detach(), dim=0)
    assert (torch.softmax(logits, dim=0) - p_f).abs().max() > 0.1
    for _ in range(1000):
        logits.requires_grad_()
        risk = irwgan_risk(users, torch.cat([scores.detach(), logits], dim=1), positives)
        (gradient,) = torch.autograd.grad(risk, logits)
        logits = logits.detach() - 8 * gradient
    torch.testing.assert_close(torch.softmax(logits, dim=0), p_f, atol=1e-5, rtol=0)
