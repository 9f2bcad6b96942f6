"""The ranker's probabilities as its users meet them: density, sample, calibrate, reliability."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import polars as pl
import pytest

from densirank import METHODS, Interactions, Ranker
from densirank.data.synthetic import kl_divergence, planted
from densirank.errors import InputError
from densirank.evaluation.off_policy import inverse_propensity
from densirank.ranking import density as density_module

WORLD = planted(150, 60, items_per_user=12, test_items_per_user=3, seed=2)
NAMED = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("bob", "rye"), ("eve", "jam")]


@pytest.fixture
def ranker() -> Ranker:
    return Ranker("popularity", device="cpu").fit(WORLD.train)


@pytest.fixture(scope="module")
def sharp() -> Ranker:
    """A ranker that was trained for too long, and is too sure of itself."""
    return Ranker("wd-mf", device="cpu", dim=8, iterations=150).fit(WORLD.train)


def distance(ranker: Ranker) -> float:
    """KL from the planted truth, by the ranker's own log-probabilities."""
    return kl_divergence(
        WORLD, lambda users: ranker.density(users, filter_seen=False).log_probabilities
    )


def test_a_density_names_its_users_and_items_and_agrees_with_the_lists(sharp: Ranker) -> None:
    found = sharp.density([7, 3], items=[5, 2, 9, 40], exclude=9)
    assert found.user_ids.tolist() == [7, 3]
    assert found.item_ids.tolist() == [5, 2, 9, 40]
    assert np.isneginf(found.log_probabilities[:, 2]).all()
    np.testing.assert_allclose(np.exp(found.log_probabilities).sum(axis=1), 1, rtol=1e-5)
    listed = sharp.recommend([7, 3], k=4, items=[5, 2, 9, 40], exclude=9)
    for user, item, probability in listed.select("user_id", "item_id", "probability").rows():
        row, column = [7, 3].index(user), [5, 2, 9, 40].index(item)
        assert np.exp(found.log_probabilities[row, column]) == pytest.approx(probability, rel=1e-5)


def test_items_asked_for_twice_count_once(sharp: Ranker) -> None:
    found = sharp.density(3, items=[40, 2, 40], filter_seen=False)
    assert found.item_ids.tolist() == [40, 2]
    assert np.exp(found.log_probabilities).sum() == pytest.approx(1, rel=1e-5)


def test_too_many_numbers_are_refused_and_entropy_still_answers(
    sharp: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sharp.density()
    assert whole.log_probabilities.shape == (150, 60)
    monkeypatch.setattr(density_module, "MAX_NUMBERS", 50 * 60)
    with pytest.raises(InputError, match=r"at most 50 users at a time .* entropy"):
        sharp.density()
    assert sharp.density(np.arange(50)).log_probabilities.shape == (50, 60)
    entropies = sharp.entropy()
    assert entropies.columns == ["user_id", "entropy", "effective_items"]
    np.testing.assert_allclose(entropies["entropy"], whole.entropy, rtol=1e-6)
    np.testing.assert_allclose(entropies["effective_items"], whole.effective_items, rtol=1e-6)


@pytest.mark.parametrize(("method", "too_sure"), [("wd-mf", True), ("ease", False)])
def test_calibration_brings_probabilities_closer_to_the_planted_truth(
    method: str, too_sure: bool
) -> None:
    settings = METHODS[method].own({"dim": 8, "iterations": 150})
    ranker = Ranker(method, device="cpu", **settings).fit(WORLD.train)
    before = distance(ranker)
    tempered = distance(ranker.calibrate(WORLD.test))
    assert ranker.calibration_ is not None
    assert (ranker.calibration_.temperature > 1) == too_sure
    assert ranker.calibration_.gain > 0
    assert tempered < 0.95 * before
    assert distance(ranker.calibrate(WORLD.test, popularity=True)) < 0.99 * tempered


def test_calibration_changes_probabilities_and_no_list(ranker: Ranker) -> None:
    before, metrics = ranker.recommend(k=10), ranker.evaluate(WORLD.test)
    after = ranker.calibrate(WORLD.test, popularity=True).recommend(k=10)
    columns = ["user_id", "item_id", "score", "rank"]
    assert after.select(columns).equals(before.select(columns))
    assert (after["probability"] - before["probability"]).abs().min() > 0  # type: ignore[operator]
    assert ranker.evaluate(WORLD.test) == metrics


def test_a_popularity_exponent_changes_probabilities_and_no_list(sharp: Ranker) -> None:
    plain = sharp.recommend(3, k=60)
    try:
        sharp.calibrate(WORLD.test, popularity=True)
        assert sharp.calibration_ is not None
        t, beta = sharp.calibration_.temperature, sharp.calibration_.popularity_exponent
        tilted = sharp.recommend(3, k=60)
        found = sharp.density(3)
    finally:
        sharp.calibration_ = None
    assert beta != 0
    assert tilted["item_id"].equals(plain["item_id"])
    popularity = 1 + WORLD.train.item_counts[plain["item_id"].to_numpy()]
    weights = popularity**beta * np.exp(plain["score"].to_numpy().astype(float) / t)
    np.testing.assert_allclose(tilted["probability"], weights / weights.sum(), rtol=1e-4)
    by_density = np.exp(found.log_probabilities[0, plain["item_id"].to_numpy()])
    np.testing.assert_allclose(tilted["probability"], by_density, rtol=1e-4)


def test_a_new_fit_forgets_the_calibration(ranker: Ranker) -> None:
    assert ranker.calibrate(WORLD.test).calibration_ is not None
    assert ranker.fit(WORLD.train).calibration_ is None


def test_reliability_is_a_frame_over_all_held_out_items(sharp: Ranker) -> None:
    frame = sharp.reliability(WORLD.test, bins=5)
    assert frame.columns == [
        "low",
        "high",
        "chances",
        "expected",
        "observed",
        "predicted",
        "frequency",
        "standard_error",
    ]
    assert frame["observed"].sum() == len(WORLD.test)
    assert frame["expected"].sum() == pytest.approx(len(WORLD.test), rel=1e-4)
    assert frame["low"].is_sorted()


def test_a_sample_is_a_frame_of_unseen_items_with_their_propensities() -> None:
    named = Ranker("wd-lgcn", device="cpu", dim=4, iterations=10).fit([*NAMED, ("eve", "oat")])
    frame = named.sample(["eve", "ann"], k=5, seed=1)
    assert frame.columns == [
        "user_id",
        "item_id",
        "score",
        "probability",
        "rank",
        "log_propensity",
    ]
    assert frame["user_id"].to_list() == ["eve", "eve", "ann", "ann"]
    assert set(frame.filter(user_id="eve")["item_id"]) == {"tea", "rye"}
    first, last = frame.rows(named=True)[:2]
    assert first["log_propensity"] == pytest.approx(np.log(first["probability"]), rel=1e-4)
    assert last["log_propensity"] == pytest.approx(0, abs=1e-6)  # nothing else was left
    assert np.isfinite(frame["log_propensity"].to_numpy()).all()


def test_another_ranker_says_how_it_would_have_drawn_a_logged_slate(
    ranker: Ranker, sharp: Ranker
) -> None:
    logged = ranker.sample(k=3, temperature=1.5, seed=4)
    own = ranker.log_propensity(logged, temperature=1.5)
    np.testing.assert_allclose(own, logged["log_propensity"], rtol=1e-5, atol=1e-6)
    first = logged.filter(rank=1)
    target = sharp.log_propensity(logged)
    whole = sharp.density()
    expected = whole.log_probabilities[first["user_id"], first["item_id"]]
    np.testing.assert_allclose(target[(logged["rank"] == 1).to_numpy()], expected, rtol=1e-4)
    estimate = inverse_propensity(
        logged["rank"], np.ones(logged.height), logged["log_propensity"], target
    )
    assert (np.abs(estimate.values - 1) < 4 * estimate.standard_errors).all()


def test_a_slate_that_cannot_be_drawn_has_no_propensity(ranker: Ranker) -> None:
    seen = int(WORLD.train.items_of(3)[0])
    slate = pl.DataFrame({"user_id": [3], "item_id": [seen], "rank": [1]})
    assert ranker.log_propensity(slate).tolist() == [-np.inf]
    assert np.isfinite(ranker.log_propensity(slate, filter_seen=False)).all()


def slates(users: list[int], items: list[int], ranks: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"user_id": users, "item_id": items, "rank": ranks})


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda r: r.density("nobody"), "does not know the user nobody"),
        (lambda r: r.sample(1, k=0), "k must be a whole number of at least 1, not 0"),
        (lambda r: r.sample(1, temperature=0.0), r"temperature must be .* not 0\.0"),
        (lambda r: r.sample(1, temperature=float("nan")), r"temperature must be .* not nan"),
        (lambda r: r.sample(1, seed=-1), "seed must be a whole number"),
        (
            lambda r: r.reliability(WORLD.test, bins=0),
            "bins must be a whole number of at least 1, not 0",
        ),
        (lambda r: r.calibrate(WORLD.train), "no held-out item can be predicted"),
        (lambda r: r.log_propensity(slates([], [], [])), "there are no slates"),
        (lambda r: r.log_propensity(slates([1, 1], [1, 1], [1, 2])), "lists an item twice"),
        (lambda r: r.log_propensity(slates([1, 2], [1, 2], [1, 2])), "must be of one user"),
        (lambda r: r.log_propensity(slates([1, 1], [1, 2], [1, 3])), "have the ranks 1, 2, 3"),
        (lambda r: r.log_propensity(slates([1], [1], [1]).drop("rank")), "lack the column rank"),
    ],
)
def test_bad_requests_get_a_sentence(ranker: Ranker, call: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(ranker)  # type: ignore[operator]


# --- the base density -----------------------------------------------------------------------------


def skewed() -> tuple[Interactions, Interactions]:
    """Draws from p ∝ popularity · exp(taste), and more of them to be held out."""
    random = np.random.default_rng(0)
    n_users, n_items, had = 300, 80, 12
    tastes = random.normal(size=(n_users, 3)) @ random.normal(size=(3, n_items))
    logits = 2.0 * random.normal(size=n_items) + 0.7 * tastes
    order = np.argsort(-(logits + random.gumbel(size=logits.shape)), axis=1)
    users = np.repeat(np.arange(n_users), had)
    train = Interactions.from_pairs(users, order[:, :had].ravel())
    held = Interactions.from_pairs(np.arange(n_users), order[:, had])
    return train, held


def mean_log_likelihood(ranker: Ranker, held: Interactions) -> float:
    """Of the held-out items by the ranker's own density."""
    found = ranker.density()
    columns = {item: place for place, item in enumerate(found.item_ids.tolist())}
    known = [(int(user), columns[item]) for user, item in held.pairs() if item in columns]
    return float(np.mean([found.log_probabilities[user, column] for user, column in known]))


@pytest.mark.parametrize("method", ["pde-mf", "wd-mf", "mle-mf", "pde-lgcn", "wd-lgcn"])
def test_a_density_with_a_base_is_likelier_than_its_scores_alone(method: str) -> None:
    """Training estimates p0 · exp f: softmax(f) forgets half of it, and calibration mends it."""
    train, held = skewed()
    settings: dict[str, Any] = {"dim": 8, "base_exponent": 1.0, "candidates": "all", "l2": 0.05}
    ranker = Ranker(method, device="cpu", **settings).fit(train)
    whole = mean_log_likelihood(ranker, held)
    forgetful = copy(ranker)
    forgetful.settings_ = ranker.spec.settings(**(settings | {"base_exponent": 0.0}))
    assert whole > mean_log_likelihood(forgetful, held) + 0.1
    assert mean_log_likelihood(ranker.calibrate(held), held) >= whole - 1e-4


def test_lists_are_ranked_by_score_unless_by_probability() -> None:
    train, _ = skewed()
    ranker = Ranker("pde-mf", device="cpu", dim=8, base_exponent=1.0).fit(train)
    by_score = ranker.recommend(k=10)
    by_probability = ranker.recommend(k=10, rank_by="probability")
    assert by_score["item_id"].to_list() != by_probability["item_id"].to_list()
    for _, rows in by_probability.group_by("user_id"):
        assert rows["probability"].is_sorted(descending=True)
    for _, rows in by_score.group_by("user_id"):
        assert rows["score"].is_sorted(descending=True)
    both = by_score.join(by_probability, on=["user_id", "item_id"])
    np.testing.assert_allclose(both["score"], both["score_right"], rtol=1e-6)
    np.testing.assert_allclose(both["probability"], both["probability_right"], rtol=1e-5)
    with pytest.raises(InputError, match="rank_by must be 'score' or 'probability', not 'taste'"):
        ranker.recommend(rank_by="taste")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="approximate lists are ranked by score"):
        ranker.build_index("clusters").recommend(approximate=True, rank_by="probability")


def test_a_sample_follows_the_density_with_its_base() -> None:
    train, _ = skewed()
    ranker = Ranker("pde-mf", device="cpu", dim=8, base_exponent=1.0).fit(train)
    drawn = ranker.sample(k=3, seed=1)
    first = drawn.filter(pl.col("rank") == 1)
    np.testing.assert_allclose(
        np.exp(first["log_propensity"].to_numpy()), first["probability"], rtol=1e-4
    )
    np.testing.assert_allclose(
        ranker.log_propensity(drawn), drawn["log_propensity"].to_numpy(), rtol=1e-6
    )
