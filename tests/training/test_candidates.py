"""Hard candidates are neighbours of what a batch's users have, and join the others in I_B."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from densirank import Ranker
from densirank.data.interactions import Interactions
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.linalg.csr import Rows
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler
from densirank.training.candidates import NEAREST, HardCandidates

CPU = torch.device("cpu")
DATA = planted(40, 60, items_per_user=5, test_items_per_user=1, seed=2).train


def _near(n_items: int = 60) -> sparse.csr_array:
    """Item i has the neighbours i + 1, …, fewer and fewer of them, the next one nearest."""
    rows = np.repeat(np.arange(n_items), [min(15, n_items - 1 - i) for i in range(n_items)])
    places = np.concatenate([np.arange(min(15, n_items - 1 - i)) for i in range(n_items)])
    values = 1.0 / (1 + places)
    return sparse.csr_array((values, (rows, rows + 1 + places)), shape=(n_items, n_items))


def _hard(count: int) -> HardCandidates:
    return HardCandidates.of(Rows.of(DATA, CPU), _near(), count)


def test_they_are_among_the_nearest_of_the_users_own_items_and_any_of_those_comes() -> None:
    users = torch.tensor([3, 17])
    drawn = _hard(4000)(users, torch.Generator().manual_seed(0)).view(2, -1)
    for user, items in zip(users.tolist(), drawn, strict=True):
        own = DATA.items_of(user).tolist()
        nearest = {i + step for i in own for step in range(1, NEAREST + 1) if i + step < 60}
        alone = {i for i in own if i + NEAREST >= 60}  # too few neighbours: itself for the rest
        assert set(items.tolist()) == nearest | alone


@pytest.mark.parametrize("candidates", ["batch", 7])
def test_they_join_the_candidates_of_a_batch(candidates: Candidates) -> None:
    plain = BatchSampler(DATA, 6, candidates, 1, CPU)
    joined = BatchSampler(DATA, 6, candidates, 1, CPU, hard=_hard(3))
    for iteration in range(5):
        without, draw = plain(iteration), joined.draw(iteration)
        batch, padded = joined.arrange(draw), joined.arrange_padded(draw)
        assert draw.sample is not None
        hard = set(draw.sample[-6 * 3 :].tolist())
        expected = set(without.candidates.tolist()) | hard
        assert sorted(batch.candidates.tolist()) == sorted(expected)
        assert set(padded.candidates.tolist()) == expected
        own = batch.items[batch.positives.columns]
        assert torch.equal(own, without.items[without.positives.columns])
        assert torch.equal(padded.items[padded.positives.columns[: len(own)]], own)


def test_a_draw_depends_on_the_seed_and_the_iteration_alone() -> None:
    one, other = (BatchSampler(DATA, 6, 7, 1, CPU, hard=_hard(3)) for _ in range(2))
    draws = [sampler.draw(4).sample for sampler in (one, other)]
    assert draws[0] is not None
    assert draws[1] is not None
    assert torch.equal(draws[0], draws[1])


def _fit(**settings: Any) -> Ranker:
    small: dict[str, Any] = {"dim": 8, "iterations": 5, "users_per_batch": 6}
    return Ranker("wd-lgcn", device="cpu", **(small | settings)).fit(DATA)


def test_a_fit_takes_them_by_the_items_that_stand_together_in_histories() -> None:
    few = _fit(candidates=3, hard_candidates=2)
    assert few.training_["iterations"] == 5
    assert not torch.equal(few.scorer_.item_vectors, _fit(candidates=3).scorer_.item_vectors)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"candidates": "all"}, "no effect where candidates is 'all'"),
        (
            {"candidates": "batch", "candidate_correction": 1.0},
            "cannot be combined with",
        ),
        ({"hard_candidates": -1}, "hard_candidates must be a whole number"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        _fit(**({"hard_candidates": 2} | settings))


def test_an_item_that_nobody_is_near_to_stands_for_itself() -> None:
    lonely = Interactions.from_pairs([0, 1], [0, 1])
    hard = HardCandidates.of(Rows.of(lonely, CPU), sparse.csr_array((2, 2)), 5)
    drawn = hard(torch.tensor([1, 0]), torch.Generator().manual_seed(0))
    assert drawn.tolist() == [1] * 5 + [0] * 5
