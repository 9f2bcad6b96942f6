"""Items that nobody had come last, and people without items get what is popular."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from scipy import sparse

import densirank
from densirank import METHODS, Interactions, Ranker
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.ranking import approximate
from densirank.scores import Calibration, VectorScorer

N_USERS, N_ITEMS = 60, 45
NOBODYS = [0, 7, 8, 20, 44]
EMPTY = [3, 59]
SMALL: dict[str, Any] = {"dim": 6, "iterations": 5, "users_per_batch": 32}


def _log() -> sparse.csr_array:
    """Who had what, with items and people that have nothing: a matrix keeps their ids."""
    train = planted(N_USERS, N_ITEMS, items_per_user=6, test_items_per_user=2, seed=5).train
    owned = train.matrix().toarray()
    owned[:, NOBODYS] = 0
    owned[EMPTY] = 0
    return sparse.csr_array(owned)


def _fitted(method: str, **settings: Any) -> Ranker:
    given = SMALL if METHODS[method].risk is not None else {}
    if method == "als":
        given = {"dim": 6, "iterations": 3}
    return Ranker(method, device="cpu", seed=2, **(given | settings)).fit(_log())


def _orders(frame: pl.DataFrame) -> dict[int, list[int]]:
    return {
        int(user): list(items)
        for (user,), items in (
            (key, part.sort("rank")["item_id"]) for key, part in frame.group_by("user_id")
        )
    }


@pytest.mark.parametrize("method", METHODS)
def test_items_that_nobody_had_come_last_at_every_door(method: str, tmp_path: Path) -> None:
    ranker = _fitted(method)
    ranker.save(tmp_path / "model")
    rankers = [ranker, densirank.load(tmp_path / "model", "cpu")]
    if ranker.trained.model.folds_in:
        rankers.append(ranker.fold_in(_log()))
    for some in rankers:
        for filter_seen in (True, False):
            lists = some.recommend(k=N_ITEMS, filter_seen=filter_seen)
            assert np.isfinite(lists["probability"].to_numpy()).all()
            for items in _orders(lists).values():
                assert set(items[-len(NOBODYS) :]) == set(NOBODYS)
        density = some.density()
        others = np.setdiff1d(np.arange(N_ITEMS), NOBODYS)
        log_p = density.log_probabilities
        assert (log_p[:, NOBODYS].max(axis=1) < log_p[:, others].max(axis=1)).all()
        user = int(some.interactions_.user_ids[1])
        below, above = some.scores(user, NOBODYS), some.scores(user, others)
        assert below.max() < above.min()


@pytest.mark.parametrize("exponent", [-1.5, 1.5])
@pytest.mark.parametrize("settings", [{}, {"base_exponent": 2.0}])
def test_they_come_last_by_probability_too(exponent: float, settings: dict[str, Any]) -> None:
    ranker = _fitted("wd-mf", **settings)
    ranker.calibration_ = Calibration(temperature=0.7, popularity_exponent=exponent)
    lists = ranker.recommend(k=N_ITEMS, rank_by="probability")
    for items in _orders(lists.filter(~pl.col("user_id").is_in(EMPTY))).values():
        assert set(items[-len(NOBODYS) :]) == set(NOBODYS)
    user = lists.filter(pl.col("user_id") == 1)
    assert user["probability"].is_sorted(descending=True)
    assert user["probability"].sum() == pytest.approx(1, abs=1e-4)


def test_they_come_last_in_approximate_lists_and_among_similar_items(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranker = _fitted("pde-mf").build_index("clusters", recall=1.0)
    monkeypatch.setattr(approximate, "MARGIN", 1)
    monkeypatch.setattr(approximate, "EXACT_FROM", 2)
    monkeypatch.setattr(approximate, "MAX_SCORED", 4)
    for k in (3, 5, N_ITEMS):
        for options in ({}, {"exclude": [1, 2, 7]}, {"items": [0, 7, 9, 10]}):
            exact, found = (
                ranker.recommend(k=k, approximate=approximate, **options)  # type: ignore[arg-type]
                for approximate in (False, True)
            )
            orders = _orders(exact), _orders(found)
            assert orders[0].keys() == orders[1].keys()
            for user, items in orders[1].items():
                assert len(items) == len(orders[0][user])
                trained = [item not in NOBODYS for item in items]
                assert trained == sorted(trained, reverse=True)
                assert trained == [item not in NOBODYS for item in orders[0][user]]
    similar = ranker.similar_items(1, k=N_ITEMS)["item_id"].to_list()
    assert set(similar[-len(NOBODYS) :]) == set(NOBODYS)


def test_the_index_is_measured_on_people_who_have_items() -> None:
    assert _fitted("pde-mf").build_index("clusters", recall=1.0).index_.measured.recall == 1.0  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["pde-mf", "wd-lgcn", "densirank", "bpr-mf", "itemknn", "als"])
def test_people_without_items_get_what_is_popular_at_every_door(
    method: str, tmp_path: Path
) -> None:
    settings = {} if method in ("itemknn", "als") else {"filter_weight": 0.5}
    ranker = _fitted(method, **settings)
    held_out = [(user, item) for user in (*EMPTY, 1) for item in (1, 2, 30)]
    ranker.calibrate([(user, item) for user in range(N_USERS) for item in (5, 6, 11)])
    ranker.save(tmp_path / "model")
    stranger = ranker.recommend(
        "x" if ranker.interactions_.user_ids.is_text else 10**6, k=9, unknown="popular"
    ).drop("user_id", "kind")
    for some in (ranker, densirank.load(tmp_path / "model", "cpu")):
        for users in ([EMPTY[0], 1, EMPTY[1], 1], EMPTY, EMPTY[0]):
            lists = some.recommend(users, k=9)
            for user in EMPTY if users != EMPTY[0] else EMPTY[:1]:
                own = lists.filter(pl.col("user_id") == user).drop("user_id")
                assert own.equals(stranger)
        backwards = some.recommend(EMPTY[::-1], k=9)
        assert backwards["user_id"].unique(maintain_order=True).to_list() == EMPTY[::-1]
        everybody = some.recommend(k=9)
        assert everybody["user_id"].unique(maintain_order=True).to_list() == list(range(N_USERS))
        assert everybody.filter(pl.col("user_id") == EMPTY[1]).drop("user_id").equals(stranger)
        counts = np.asarray(_log().sum(axis=0)).ravel() + 1
        log_p = some.density(EMPTY).log_probabilities
        np.testing.assert_allclose(np.exp(log_p), [counts / counts.sum()] * 2, rtol=1e-4)
        slates = some.sample([EMPTY[0], 1], k=5, seed=4)
        np.testing.assert_allclose(
            some.log_propensity(slates), slates["log_propensity"].to_numpy(), rtol=1e-4
        )
        mixed = some.recommend([1, EMPTY[0], 10**6], k=9, unknown="popular")
        assert mixed["user_id"].unique(maintain_order=True).to_list() == [1, EMPTY[0], 10**6]
        kinds = dict(mixed.select("user_id", "kind").rows())
        assert kinds == {1: "known", EMPTY[0]: "popular", 10**6: "popular"}
        popular = Ranker("popularity", device="cpu").fit(_log())
        found, best = (r.evaluation(held_out, 5).per_user["ndcg"] for r in (some, popular))
        assert found[1:].tolist() == best[1:].tolist()


def test_repeated_users_get_their_lists_as_before() -> None:
    ranker = _fitted("wd-mf")
    twice = ranker.recommend([1, 2, 1], k=3)
    assert twice["user_id"].to_list() == [1] * 3 + [2] * 3 + [1] * 3
    with_empty = ranker.recommend([1, EMPTY[0], 1], k=3)
    assert with_empty["user_id"].to_list() == [1] * 3 + [EMPTY[0]] * 3 + [1] * 3
    assert with_empty["item_id"][:3].to_list() == twice["item_id"][:3].to_list()


def test_items_of_weight_zero_are_items_that_nobody_had() -> None:
    train = planted(N_USERS, N_ITEMS, items_per_user=6, test_items_per_user=2, seed=5).train
    weights = np.where(train.items == 4, 0.0, 1.0)
    data = Interactions.from_pairs(train.users, train.items, weights=weights)
    ranker = Ranker("wd-mf", device="cpu", **SMALL).fit(data)
    assert set(ranker.recommend(k=1)["item_id"]) - {4} == set(ranker.recommend(k=1)["item_id"])
    updated = ranker.update([(1, 4), (2, 4)])
    lists = updated.recommend(k=N_ITEMS)
    last = lists.group_by("user_id").agg(pl.col("item_id").sort_by("rank").last())
    assert (last["item_id"] == 4).sum() < len(last)  # somebody had it: it is an item like others


def test_where_all_have_interactions_the_scorer_is_as_it_was() -> None:
    train = planted(20, 12, items_per_user=6, test_items_per_user=2, seed=5).train
    ranker = Ranker("wd-mf", device="cpu", **SMALL).fit(train)
    assert type(ranker.scorer_) is VectorScorer
    assert torch.isfinite(ranker.scorer_.scores(torch.arange(20))).all()


def test_a_calibration_looks_at_people_who_have_items() -> None:
    ranker = _fitted("wd-mf")
    held_out = [(user, item) for user in range(N_USERS) for item in (5, 6, 11)]
    with_items = [(user, item) for user, item in held_out if user not in EMPTY]
    found = [ranker.calibrate(pairs).calibration_ for pairs in (held_out, with_items)]
    assert found[0] == found[1]
    with pytest.raises(InputError, match="no held-out user has an item in training"):
        ranker.calibrate([(EMPTY[0], 5)])
