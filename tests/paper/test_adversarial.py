"""The game beside the density: what the experiment claims, at a size that takes a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from densirank.errors import StorageError
from paper import adversarial
from paper.adversarial import Game, play


@pytest.fixture(scope="module")
def game() -> Game:
    return play((1, 10, 150), seed=3)


def test_the_generators_best_answer_is_the_critics_density(game: Game) -> None:
    assert game.divergence_alone < 1e-3 < game.looks[1].divergence


def test_while_both_learn_the_generator_is_behind_its_critic(game: Game) -> None:
    divergences = [look.divergence for look in game.looks]
    assert max(divergences) > 10 * game.divergence_alone
    assert divergences[0] < 0.01  # both begin by scoring everything nearly alike


def test_the_critic_is_closer_to_likelihood_than_to_anything_else_it_is_compared_with(
    game: Game,
) -> None:
    assert all(look.agreement_mle > look.agreement_pde for look in game.looks)
    assert 0.5 < game.looks[-1].agreement_mle < 1


def test_every_method_learns(game: Game) -> None:
    first, last = game.looks[0], game.looks[-1]
    for metric in ("irwgan_ndcg", "pde_ndcg", "mle_ndcg", "irwgan_seconds", "pde_seconds"):
        assert getattr(last, metric) > getattr(first, metric), metric


def test_what_is_kept_is_read_again_and_anything_else_is_refused(
    game: Game, tmp_path: Path
) -> None:
    game.write(tmp_path / "kept.json")
    assert Game.read(tmp_path / "kept.json") == game
    (tmp_path / "other.json").write_text('{"looks": [{}]}', encoding="utf-8")
    with pytest.raises(StorageError, match=r"other\.json holds no record of this experiment"):
        Game.read(tmp_path / "other.json")


def test_the_sheet_has_a_row_for_every_look_and_says_what_came_after(game: Game) -> None:
    sheet = game.sheet()
    assert [row[0] for row in sheet.rows] == ["1", "10", "150"]
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert f"{adversarial.ALONE} more steps" in sheet.note
