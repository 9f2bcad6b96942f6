"""What every method promises, whatever its model, risk and constraint."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from polars.testing import assert_frame_equal
from scipy.special import softmax

from densirank import METHODS, Interactions, Ranker, load

SIZE = 10
HELD_OUT = {0: 8, 3: 5, 4: 6, 7: 1}  # user → item
CHECKERBOARD = [
    (user, item) for user in range(SIZE) for item in range(SIZE) if (user + item) % 2 == 0
]

NOT_PERSONAL = {"popularity": "the same scores for everybody cannot tell even users from odd ones"}
PERSONAL = [name for name in METHODS if name not in NOT_PERSONAL]
CLOSED_FORM = {"itemknn", "ease"}  # nothing is left to chance

OWN_SETTINGS = {"enmf": {"unobserved_weight": 0.2}}  # half of all pairs are observed here

every_method = pytest.mark.parametrize("method", METHODS)
Fitted = Callable[[str], Ranker]


def _fit(method: str, seed: int = 0) -> Ranker:
    """A method on a checkerboard, even users having had even items, with a few pairs held out.

    The learning rate is low, since WD without norm clipping is unstable, as the paper says.
    """
    settings: dict[str, Any] = {"dim": 8, "iterations": 60, "learning_rate": 0.03}
    own = METHODS[method].own(settings | OWN_SETTINGS.get(method, {}))
    ranker = Ranker(method, seed=seed, device="cpu", **own)
    pairs = [pair for pair in CHECKERBOARD if pair not in HELD_OUT.items()]
    return ranker.fit(Interactions.from_pairs(*zip(*pairs, strict=True)))


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return cache(_fit)


@pytest.mark.parametrize("method", PERSONAL)
def test_solves_the_checkerboard(method: str, fitted: Fitted) -> None:
    best = fitted(method).recommend(list(HELD_OUT), k=1)
    assert dict(best.select("user_id", "item_id").iter_rows()) == HELD_OUT


@pytest.mark.parametrize("method", NOT_PERSONAL)
def test_an_impersonal_method_ranks_by_popularity(method: str, fitted: Fitted) -> None:
    unseen = fitted(method).recommend(4, k=SIZE)["item_id"].to_list()
    assert unseen == [3, 7, 9, 1, 5, 6]  # the held-out items have one user fewer


@every_method
def test_recommends_unseen_items_only_and_all_of_them(method: str, fitted: Fitted) -> None:
    ranker = fitted(method)
    seen = set(ranker.interactions_.pairs())
    listed = list(ranker.recommend(k=SIZE).select("user_id", "item_id").iter_rows())
    assert len(set(listed)) == len(listed)
    assert set(listed) == {(u, i) for u in range(SIZE) for i in range(SIZE)} - seen


@every_method
def test_probabilities_are_the_softmax_of_the_scores_over_what_can_be_listed(
    method: str, fitted: Fitted
) -> None:
    for filter_seen in (True, False):
        lists = fitted(method).recommend(k=SIZE, filter_seen=filter_seen)
        for _, rows in lists.group_by("user_id"):
            assert float(rows["probability"].sum()) == pytest.approx(1, rel=1e-5)
            expected = softmax(rows["score"].to_numpy().astype(np.float64))
            np.testing.assert_allclose(rows["probability"].to_numpy(), expected, rtol=1e-4)


@every_method
def test_lists_go_from_the_best_to_the_worst(method: str, fitted: Fitted) -> None:
    for _, rows in fitted(method).recommend(k=SIZE).group_by("user_id", maintain_order=True):
        assert rows["rank"].to_list() == list(range(1, len(rows) + 1))
        assert rows["score"].is_sorted(descending=True)
        assert rows["probability"].is_sorted(descending=True)


@every_method
def test_scores_are_dot_products_of_finite_vectors_and_a_sparse_part(
    method: str, fitted: Fitted
) -> None:
    ranker = fitted(method)
    users, items = ranker.scorer_.user_vectors, ranker.scorer_.item_vectors
    assert users.isfinite().all()
    assert items.isfinite().all()
    expected = users @ items.T
    if ranker.scorer_.sparse_part is not None:
        part = ranker.scorer_.sparse_part.take(torch.arange(len(users)))
        assert part.values.isfinite().all()
        expected.index_put_((part.rows.row_of_entry, part.rows.columns), part.values, True)
    rows = ranker.recommend(k=SIZE)
    u, i = (rows[column].to_numpy() for column in ("user_id", "item_id"))
    np.testing.assert_allclose(
        rows["score"].to_numpy(), expected.numpy()[u, i], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("method", PERSONAL)
def test_similar_items_are_those_the_same_people_had(method: str, fitted: Fitted) -> None:
    similar = fitted(method).similar_items(0, k=4)
    assert set(similar["item_id"].to_list()) == {2, 4, 6, 8}
    assert similar["score"].is_sorted(descending=True)
    assert similar["rank"].to_list() == [1, 2, 3, 4]


@every_method
def test_same_seed_gives_the_same_lists_to_the_last_bit(method: str, fitted: Fitted) -> None:
    assert_frame_equal(_fit(method).recommend(), fitted(method).recommend(), check_exact=True)


@pytest.mark.parametrize("method", [name for name in PERSONAL if name not in CLOSED_FORM])
def test_another_seed_gives_other_scores(method: str, fitted: Fitted) -> None:
    other = _fit(method, seed=1).recommend()["score"]
    assert other.to_list() != fitted(method).recommend()["score"].to_list()


@every_method
def test_a_saved_ranker_comes_back_the_same(method: str, fitted: Fitted, tmp_path: Path) -> None:
    ranker = fitted(method)
    ranker.save(tmp_path / "model")
    loaded = load(tmp_path / "model", device="cpu")
    assert loaded.method == ranker.method
    assert loaded.settings == ranker.settings
    assert loaded.seed == ranker.seed
    for filter_seen in (True, False):
        expected = ranker.recommend(k=SIZE, filter_seen=filter_seen)
        actual = loaded.recommend(k=SIZE, filter_seen=filter_seen)
        assert_frame_equal(actual, expected, check_exact=True)
    similar = ranker.similar_items(0)
    assert_frame_equal(loaded.similar_items(0), similar, check_exact=True)
