"""Weights of the pairs count where a method has a place for them, and it is said where not."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import densirank
from densirank import METHODS, DensirankWarning, Interactions, Ranker
from densirank.cli.printing import said_warnings
from densirank.data.recency import pair_weights
from densirank.data.synthetic import Planted, planted

SMALL = {"dim": 6, "iterations": 6, "users_per_batch": 32}
USING = ["pde-mf", "wd-mf", "mle-mf", "wd-lgcn", "densirank", "densirank-blind", "als"]
IGNORING = [
    "bpr-mf",
    "bpr-mf-ans",
    "enmf",
    "dregn-cf",
    "mult-vae",
    "irgan",
    "irwgan",
    "popularity",
    "itemknn",
    "ease",
]
FILTERS: list[dict[str, Any]] = [
    {"filter_weight": 1.0},
    {"filter_weight": 1.0, "filter_kind": "ridge"},
    {"low_pass_weight": 1.0, "low_pass_rank": 16},
]


def _settings(method: str) -> dict[str, Any]:
    if METHODS[method].risk is not None:
        return SMALL
    return {"dim": 6, "iterations": 3} if method == "als" else {}


def _log(weights: Any = None) -> Interactions:
    train = planted(40, 30, items_per_user=7, test_items_per_user=2, seed=3).train
    if weights == "different":
        weights = 1.0 + np.arange(len(train)) % 5
    elif weights is not None:
        weights = np.full(len(train), weights)
    return Interactions.from_pairs(train.users, train.items, weights=weights, ordered=True)


def _everything(ranker: Ranker) -> torch.Tensor:
    return ranker.scorer_.scores(torch.arange(ranker.interactions_.n_users))


def _fitted(method: str, data: Interactions, **settings: Any) -> Ranker:
    return Ranker(method, device="cpu", seed=1, **(_settings(method) | settings)).fit(data)


@pytest.mark.parametrize("method", USING)
def test_a_method_that_uses_weights_scores_by_them(method: str) -> None:
    without = _everything(_fitted(method, _log()))
    assert not torch.equal(_everything(_fitted(method, _log("different"))), without)


@pytest.mark.parametrize("method", USING)
@pytest.mark.parametrize("weight", [0.1, 3.0])
def test_equal_weights_change_nothing(method: str, weight: float) -> None:
    without, equal = _fitted(method, _log()), _fitted(method, _log(weight))
    assert torch.equal(_everything(equal), _everything(without))
    history = _log().select(_log().users < 3)
    folded = [
        _everything(ranker.fold_in(some))
        for ranker, some in ((without, history), (equal, _log(weight).select(_log().users < 3)))
    ]
    assert torch.equal(*folded)


@pytest.mark.parametrize("settings", FILTERS)
def test_a_filter_uses_weights_whatever_it_is_added_to(settings: dict[str, Any]) -> None:
    without = _everything(_fitted("popularity", _log(), **settings))
    assert torch.equal(_everything(_fitted("popularity", _log(7.0), **settings)), without)
    with pytest.warns(DensirankWarning, match="only its filters use the weights"):
        weighted = _fitted("popularity", _log("different"), **settings)
    assert not torch.equal(_everything(weighted), without)


@pytest.mark.parametrize("method", IGNORING)
def test_a_method_that_ignores_weights_says_so(method: str) -> None:
    sentence = f"{method} counts every pair alike: the weights of the interactions are ignored"
    with pytest.warns(DensirankWarning, match=sentence):
        weighted = _fitted(method, _log("different"))
    assert torch.equal(_everything(weighted), _everything(_fitted(method, _log())))


def test_every_method_uses_weights_or_says_that_it_does_not() -> None:
    using = {method.name for method in METHODS.values() if method.uses_weights}
    assert using >= set(USING)
    assert not using & set(IGNORING)
    risks = {METHODS[name].risk for name in using} - {None}
    assert risks == {"pde", "wd", "mle"}


def test_the_command_line_prints_it_as_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with said_warnings():
        for _ in range(2):
            _fitted("popularity", _log("different"))
        with pytest.warns(UserWarning, match="of somebody else"):
            warnings.warn("of somebody else", UserWarning, stacklevel=1)
    printed = capsys.readouterr().err.splitlines()
    assert printed == [
        "warning: popularity counts every pair alike: the weights of the interactions are ignored"
    ]


def test_weights_and_recency_are_multiplied_and_one_on_average() -> None:
    users, items = [0, 0, 0, 1, 1], [1, 2, 3, 1, 2]
    data = Interactions.from_pairs(users, items, weights=[1, 2, 4, 5, 5], ordered=True)
    found = pair_weights(data, recency=1.0)
    assert found is not None
    raw = np.exp([0, 0.5, 1, 0, 1]) * [1, 2, 4, 1, 1]
    expected = np.concatenate([part / part.mean() for part in (raw[:3], raw[3:])])
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn", "als", "popularity"])
def test_people_who_are_folded_in_are_weighted_like_those_of_the_fit(method: str) -> None:
    filters = {} if method == "als" else FILTERS[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensirankWarning)
        ranker = _fitted(method, _log("different"), **filters)
    history, plain = (log.select(log.users < 4) for log in (_log("different"), _log()))
    folded = _everything(ranker.fold_in(history))
    assert not torch.equal(folded, _everything(ranker.fold_in(plain)))
    alone = _log("different").select(_log().users == 2)
    own = _everything(ranker.fold_in(alone))[0]
    torch.testing.assert_close(own, folded[2], rtol=1e-3, atol=1e-3)
    if method != "als":
        return
    many = Ranker("als", dim=6, iterations=200, l2=2.0, confidence=7.0, device="cpu")
    many.fit(_log("different"))
    torch.testing.assert_close(
        many.fold_in(history).scorer_.user_vectors,
        many.scorer_.user_vectors[:4],
        rtol=1e-2,
        atol=1e-3,
    )


@pytest.mark.parametrize("method", ["wd-mf", "als"])
def test_an_explanation_is_of_the_weighted_history(method: str) -> None:
    log = _log("different")
    user = int(np.flatnonzero(log.user_counts > 3)[0])
    ranker = _fitted(method, log)
    items = log.items_of(user)
    wanted = log.item_ids[int(np.setdiff1d(np.arange(log.n_items), items)[0])]
    found = dict(ranker.explain(log.user_ids[user], wanted, k=50).rows())
    history = log.select(log.users == user)
    whole = ranker.fold_in(history).scores(log.user_ids[user], wanted)
    for item in items:
        rest = ranker.fold_in(history.select(history.items != item))
        drop = float((whole - rest.scores(log.user_ids[user], wanted))[0])
        assert found[log.item_ids[int(item)]] == pytest.approx(drop, rel=0.01, abs=1e-3)


def test_als_keeps_the_unit_of_weights_when_it_is_saved(tmp_path: Any) -> None:
    ranker = _fitted("als", _log("different"))
    ranker.save(tmp_path / "model")
    loaded = densirank.load(tmp_path / "model", "cpu")
    history = _log("different").select(_log().users < 4)
    assert torch.equal(_everything(loaded.fold_in(history)), _everything(ranker.fold_in(history)))


# --- weights that say something -------------------------------------------------------------------


class World(NamedTuple):
    """A planted density, and logs of what was drawn from it among random items."""

    planted: Planted
    weighted: Interactions
    shuffled: Interactions
    plain: Interactions


def _noisy(seed: int) -> World:
    """As many random pairs as true ones; the weight of a true one is high."""
    world = planted(200, 120, items_per_user=12, test_items_per_user=3, seed=seed)
    random, train = np.random.default_rng(seed), world.train
    users = np.concatenate([train.users, random.integers(0, train.n_users, len(train))])
    items = np.concatenate([train.items, random.integers(0, train.n_items, len(train))])
    weights = np.where(np.arange(len(users)) < len(train), 4.0, 0.25)
    weights *= np.exp(0.3 * random.standard_normal(len(users)))
    pairs = users.astype(np.int64) * train.n_items + items
    _, kept = np.unique(pairs, return_index=True)  # the true one of a pair that is both
    kept = kept[~np.isin(pairs[kept], world.test.users * train.n_items + world.test.items)]

    def log(weights: NDArray[np.float64] | None) -> Interactions:
        ids = train.user_ids, train.item_ids
        return Interactions.from_codes(users[kept], items[kept], *ids, None, weights)

    return World(world, log(weights[kept]), log(random.permutation(weights[kept])), log(None))


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("wd-mf", {"dim": 16}),
        ("pde-mf", {"dim": 16}),
        ("als", {"dim": 8, "l2": 5.0, "confidence": 8.0}),
        *(("popularity", settings) for settings in FILTERS),
    ],
)
@pytest.mark.filterwarnings("ignore:popularity counts every pair alike")
def test_true_weights_help_and_shuffled_ones_do_not(method: str, settings: dict[str, Any]) -> None:
    found = []
    for seed in (1, 2):
        world = _noisy(seed)
        test = world.planted.test
        for log in (world.weighted, world.plain, world.shuffled):
            ranker = Ranker(method, device="cpu", **settings).fit(log)
            log_p = ranker.density().log_probabilities[test.users, test.items]
            found.append((ranker.evaluate(test, 10)["ndcg@10"], float(log_p.mean())))
    weighted, plain, shuffled = np.array(found).reshape(2, 3, 2).mean(axis=0)
    assert weighted[0] > 1.1 * plain[0]  # nDCG@10
    assert weighted[1] > plain[1] + 0.03  # nats per held-out item
    assert (shuffled < plain).all()
