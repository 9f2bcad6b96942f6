"""The low-pass filter against its formula, written down with SciPy's singular vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from densirank import METHODS, Ranker, load
from densirank.data.interactions import Interactions
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.filters.low_pass import LowPass
from densirank.linalg.csr import Rows
from densirank.scores import score_spreads

CPU = torch.device("cpu")
RANK = 5


@pytest.fixture(scope="module")
def data() -> Interactions:
    return planted(70, 40, items_per_user=8, test_items_per_user=1, seed=4).train


def _dense(data: Interactions, rank: int) -> NDArray[np.float64]:
    """R D_I^-½ V Vᵀ D_I^½, (users, items)."""
    had = data.matrix().toarray().astype(np.float64)
    n_users, n_items = np.maximum(had.sum(1), 1), np.maximum(had.sum(0), 1)
    _, _, right = np.linalg.svd(had / np.sqrt(n_users)[:, None] / np.sqrt(n_items))
    leading = right[:rank].T
    made: NDArray[np.float64] = had / np.sqrt(n_items) @ leading @ leading.T * np.sqrt(n_items)
    return made


def _scores(ranker: Ranker) -> NDArray[np.float64]:
    scores = ranker.scorer_.scores(torch.arange(ranker.scorer_.n_users))
    return scores.double().numpy()


@pytest.mark.parametrize("rank", [1, RANK, 40])
def test_it_keeps_what_the_leading_singular_vectors_can_express(
    data: Interactions, rank: int
) -> None:
    low_pass = LowPass.of(data, rank, CPU)
    made = low_pass.users(Rows.of(data, CPU)) @ low_pass.items.T
    np.testing.assert_allclose(made.numpy(), _dense(data, rank), atol=2e-4)


def test_a_rank_beyond_the_catalogue_is_filled_with_zeros(data: Interactions) -> None:
    low_pass = LowPass.of(data, 50, CPU)
    assert low_pass.items.shape == (40, 50)
    assert not low_pass.items[:, 40:].any()


def test_spreads_are_standard_deviations_over_the_catalogue() -> None:
    random = torch.Generator().manual_seed(0)
    users = torch.randn(7, 3, generator=random)
    items = torch.randn(30, 3, generator=random) + 2
    expected = (users @ items.T).std(dim=1, correction=0)
    torch.testing.assert_close(score_spreads(users, items), expected)


@pytest.mark.parametrize("method", ["wd-lgcn", "wd-mf", "popularity"])
def test_scores_are_the_sum_of_both_in_standard_deviations(data: Interactions, method: str) -> None:
    settings = METHODS[method].own({"dim": 8, "iterations": 10, "low_pass_rank": RANK})
    plain = _scores(Ranker(method, device="cpu", **settings).fit(data))
    both = _scores(Ranker(method, device="cpu", low_pass_weight=0.5, **settings).fit(data))
    smooth = _dense(data, RANK)
    units = plain.std(axis=1, keepdims=True) / smooth.std(axis=1, keepdims=True)
    np.testing.assert_allclose(both, plain + 0.5 * units * smooth, rtol=1e-3, atol=1e-3)


def test_known_people_have_the_same_part_when_they_are_folded_in_and_after_loading(
    data: Interactions, tmp_path: Path
) -> None:
    ranker = Ranker(
        "wd-mf", device="cpu", dim=8, iterations=10, low_pass_weight=0.5, low_pass_rank=RANK
    ).fit(data)
    ranker.save(tmp_path)
    for one in (ranker, load(tmp_path, "cpu")):
        folded = one.fold_in(data)
        own, theirs = one.scorer_.user_vectors[:, 8:], folded.scorer_.user_vectors[:, 8:]
        ratio = theirs / own  # each in units of the spread of vectors of their own
        torch.testing.assert_close(ratio, ratio[:, :1].expand_as(ratio), rtol=1e-3, atol=1e-4)
        assert torch.equal(folded.scorer_.item_vectors, one.scorer_.item_vectors)
    assert load(tmp_path, "cpu").recommend(k=5).equals(ranker.recommend(k=5))


def test_an_update_goes_on_from_the_trained_vectors_and_makes_the_filter_anew(
    data: Interactions,
) -> None:
    settings: dict[str, Any] = {"dim": 8, "low_pass_rank": RANK, "low_pass_weight": 0.5}
    ranker = Ranker("wd-lgcn", device="cpu", iterations=10, **settings).fit(data)
    updated = ranker.update([(0, int(data.item_ids[0])), (10**6, int(data.item_ids[1]))])
    assert updated.scorer_.user_vectors.shape == (data.n_users + 1, 8 + RANK)
    plain = Ranker("wd-lgcn", device="cpu", iterations=10, dim=8).fit(data)
    more = plain.update([(0, int(data.item_ids[0])), (10**6, int(data.item_ids[1]))])
    torch.testing.assert_close(updated.scorer_.item_vectors[:, :8], more.scorer_.item_vectors)


def test_a_model_of_items_by_items_refuses_it(data: Interactions) -> None:
    with pytest.raises(InputError, match="unknown setting 'low_pass_weight' of ease"):
        Ranker("ease", device="cpu", low_pass_weight=0.1).fit(data)
