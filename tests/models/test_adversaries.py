from __future__ import annotations

import pytest
import torch

from densirank.device import Hardware
from densirank.models.adversaries import Adversaries, RankingCritic, RankingGenerator
from densirank.models.enmf import ENMF
from densirank.models.mf import MatrixFactorisation

USERS, ITEMS = torch.tensor([4, 0]), torch.tensor([8, 1, 3])


def _players(generator_ranks: bool = False) -> Adversaries:
    chance = torch.Generator().manual_seed(0)
    critic, generator = (MatrixFactorisation(6, 9, 4, chance) for _ in range(2))
    return (RankingGenerator if generator_ranks else RankingCritic)(critic, generator)


@pytest.mark.parametrize("generator_ranks", [False, True])
def test_one_of_them_ranks(generator_ranks: bool) -> None:
    model = _players(generator_ranks)
    ranker, other = (model.critic, model.generator)[:: -1 if generator_ranks else 1]
    for actual, expected, not_expected in zip(
        model.vectors(), ranker.vectors(), other.vectors(), strict=True
    ):
        assert torch.equal(actual, expected)
        assert not torch.equal(actual, not_expected)


@pytest.mark.parametrize("generator_ranks", [False, True])
def test_a_batch_has_the_critics_vectors_first_whoever_ranks(generator_ranks: bool) -> None:
    model = _players(generator_ranks)
    for actual, of_critic, of_generator, rows in zip(
        model.batch_vectors(USERS, ITEMS, 0),
        model.critic.vectors(),
        model.generator.vectors(),
        (USERS, ITEMS),
        strict=True,
    ):
        assert torch.equal(actual, torch.cat([of_critic[rows], of_generator[rows]], dim=1))


def test_the_seed_of_a_batch_reaches_both_players() -> None:
    chance = torch.Generator().manual_seed(0)
    model = RankingCritic(ENMF(6, 9, 40, 0.5, chance), ENMF(6, 9, 40, 0.5, chance))
    first, again, other = (model.batch_vectors(USERS, ITEMS, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    for one, another in zip(first.chunk(2, dim=1), other.chunk(2, dim=1), strict=True):
        assert not torch.equal(one, another)


def test_both_players_are_trained() -> None:
    model = _players()
    users, items = model.batch_vectors(USERS, ITEMS, 0)
    (users @ items.T).sum().backward()  # type: ignore[no-untyped-call]
    tables = list(model.parameters())
    assert len(tables) == 4
    assert all(table.grad is not None and table.grad.any() for table in tables)


def test_clipping_is_for_the_critic_alone() -> None:
    model = _players()
    with torch.no_grad():
        for table in model.parameters():
            table.mul_(100)
    before = [table.detach().clone() for table in model.generator.parameters()]
    model.clip_(0.5)
    for table in model.critic.parameters():
        torch.testing.assert_close(table.detach().norm(dim=1), torch.full((len(table),), 0.5))
    for table, old in zip(model.generator.parameters(), before, strict=True):
        assert torch.equal(table, old)


@pytest.mark.parametrize("n_candidates", [None, 2])
def test_regularisation_is_that_of_both(n_candidates: int | None) -> None:
    model = _players()
    expected = sum(
        player.regularised(USERS, ITEMS, n_candidates) for player in (model.critic, model.generator)
    )
    assert torch.equal(model.regularised(USERS, ITEMS, n_candidates), torch.as_tensor(expected))


def test_preparing_prepares_both() -> None:
    model = _players()
    prepared = []
    for player in (model.critic, model.generator):
        player.prepare = lambda hardware, player=player: prepared.append(player)  # type: ignore[assignment, misc]
    assert model.prepare(Hardware(torch.device("cpu"))) is model
    assert prepared == [model.critic, model.generator]
