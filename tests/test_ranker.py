"""The estimator as its users meet it."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse, special

from densirank import METHODS, Interactions, Ranker, read
from densirank.data.synthetic import kl_divergence, planted
from densirank.errors import InputError, NotFittedError
from densirank.settings import TrainingSettings

WORLD = planted(150, 60, items_per_user=12, test_items_per_user=3, seed=2)
NAMED = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("bob", "rye"), ("eve", "jam")]


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker("wd-lgcn", device="cpu", dim=8, iterations=60).fit(WORLD.train)


@pytest.fixture(scope="module")
def named() -> Ranker:
    return Ranker("wd-lgcn", device="cpu", dim=4, iterations=10).fit(NAMED)


def test_recommendations_are_a_frame_with_the_ids_as_they_came(named: Ranker) -> None:
    frame = named.recommend(["bob", "ann"], k=5)
    assert frame.columns == ["user_id", "item_id", "score", "probability", "rank"]
    assert frame["user_id"].to_list() == ["bob", "ann"]
    assert frame["item_id"].to_list() == ["jam", "rye"]  # each has one item left, so one row
    assert frame["probability"].to_list() == [1.0, 1.0]


def test_a_frame_s_scores_and_probabilities_are_the_model_s(ranker: Ranker) -> None:
    frame = ranker.recommend(3, k=60)
    scores = (ranker.scorer_.user_vectors[3] @ ranker.scorer_.item_vectors.T).double().numpy()
    unseen = np.setdiff1d(np.arange(60), WORLD.train.items_of(3))
    expected = pl.DataFrame({"item_id": unseen, "p": special.softmax(scores[unseen])})
    both = frame.join(expected, on="item_id")
    assert frame.height == both.height == len(unseen)
    np.testing.assert_allclose(both["probability"], both["p"], rtol=1e-5)
    assert frame["score"].is_sorted(descending=True)
    assert frame["rank"].to_list() == list(range(1, len(unseen) + 1))


def test_filters_restrict_the_catalogue_and_renormalise(ranker: Ranker) -> None:
    allowed = [1, 2, 3, 4, 5, 6]
    frame = ranker.recommend(3, k=10, items=allowed, exclude=[2], filter_seen=False)
    assert set(frame["item_id"]) == {1, 3, 4, 5, 6}
    assert frame["probability"].sum() == pytest.approx(1)
    assert set(ranker.recommend(3, k=60, filter_seen=False)["item_id"]) == set(range(60))


def test_everybody_at_once_equals_one_by_one(ranker: Ranker) -> None:
    everybody = ranker.recommend(k=4)
    assert everybody.height == 4 * 150
    for user in (0, 77, 149):
        alone = ranker.recommend(user, k=4)
        together = everybody.filter(pl.col("user_id") == user)
        assert alone["item_id"].to_list() == together["item_id"].to_list()


def test_a_fitted_model_is_closer_to_the_planted_truth_than_popularity(ranker: Ranker) -> None:
    def distance(fitted: Ranker) -> float:
        users, items = fitted.scorer_.user_vectors, fitted.scorer_.item_vectors
        return kl_divergence(WORLD, lambda chosen: (users[chosen] @ items.T).numpy())

    popularity = Ranker("popularity", device="cpu").fit(WORLD.train)
    assert distance(ranker) < 0.9 * distance(popularity)


def test_popularity_gives_items_their_share() -> None:
    popularity = Ranker("popularity", device="cpu").fit(WORLD.train)
    frame = popularity.recommend(0, k=60, filter_seen=False).sort("item_id")
    counts = WORLD.train.item_counts + 1
    np.testing.assert_allclose(frame["probability"], counts / counts.sum(), rtol=1e-5)


def test_similar_items_are_by_cosine_and_leave_the_item_out(ranker: Ranker) -> None:
    frame = ranker.similar_items(7, k=5)
    vectors = ranker.scorer_.item_vectors.double().numpy()
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = unit @ unit[7]
    cosines[7] = -np.inf
    best = np.argsort(-cosines)[:5]
    assert frame["item_id"].to_list() == best.tolist()
    np.testing.assert_allclose(frame["score"], cosines[best], rtol=1e-5)


def test_frames_matrices_and_pairs_all_fit() -> None:
    pairs = [(u, i) for u in range(6) for i in range(6) if (u + i) % 2 == 0]
    users, items = np.array(pairs).T
    frame = pl.DataFrame({"user": users, "item": items})
    sources = [
        pairs,
        frame,
        frame.to_pandas(),
        frame.to_arrow(),
        sparse.csr_matrix((np.ones(len(pairs)), (users, items))),
        sparse.csr_array((np.ones(len(pairs)), (users, items))),
    ]
    frames = [
        Ranker("wd-lgcn", device="cpu", dim=4, iterations=5).fit(s).recommend(k=3) for s in sources
    ]
    assert all(other.equals(frames[0]) for other in frames[1:])


def test_ids_meet_across_kinds(ranker: Ranker) -> None:
    assert ranker.recommend("3", k=2).equals(ranker.recommend(3, k=2))


def test_evaluate_names_its_metrics_and_counts(ranker: Ranker) -> None:
    metrics = ranker.evaluate(WORLD.test, k=10)
    assert metrics["users"] == 150
    assert 0 < metrics["recall@10"] < 1
    assert metrics["unknown_users"] == metrics["unknown_items"] == metrics["seen_pairs"] == 0
    on_train = ranker.evaluate(WORLD.train, k=10)
    assert on_train["recall@10"] == 0
    assert on_train["seen_pairs"] == len(WORLD.train)
    strangers = read([(0, 1), (999, 1), (0, 888)])
    counted = ranker.evaluate(strangers, k=10)
    assert (counted["unknown_users"], counted["unknown_items"], counted["users"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda r: r.recommend("nobody"), "does not know the user nobody"),
        (lambda r: r.recommend([1, 2, *range(990, 1002)]), "990, 991, .*, 999 and 2 more"),
        (lambda r: r.recommend(1, k=0), "k must be a whole number of at least 1, not 0"),
        (lambda r: r.similar_items(60), "does not know the item 60"),
        (lambda r: r.fit(WORLD.train, valid=1.5), "1.5"),
    ],
)
def test_bad_requests_get_a_sentence(ranker: Ranker, call: object, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(ranker)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"method": "svd"}, "there is no method 'svd'; the methods are wd-lgcn"),
        ({"dims": 3}, "unknown setting 'dims' of wd-lgcn; did you mean dim"),
        ({"dim": 2.5}, "dim must be a whole number"),
        ({"learning_rate": 0}, "learning_rate must be a number above 0"),
        ({"candidates": "some"}, "candidates must be 'batch', 'all' or a whole number"),
        ({"max_norm": -1.0}, "max_norm must be a number above 0, not -1.0"),
        ({"seed": -1}, "seed must be a whole number (of|below)"),
        ({"seed": 2**64}, "seed must be a whole number (of|below)"),
        ({"l2": float("nan")}, "l2 must be a number of at least 0, not nan"),
        ({"filter_weight": 1e39}, r"filter_weight must be .* and at most 1e\+09, not 1e\+39"),
        ({"low_pass_weight": 1e30}, "low_pass_weight must be a number of at least 0 and at most"),
        ({"recency": 10**400}, "recency must be a number of at least 0 and at most"),
        ({"l2": 1e300}, r"l2 must be .* at most 1e\+09, not 1e\+300"),
        ({"learning_rate": 1e39}, r"learning_rate must be a number above 0 and at most 1e\+30"),
        ({"max_norm": 1e-50}, "max_norm must be a number of at least 1e-30, not 1e-50"),
        ({"user_exponent": 1e9}, "user_exponent must be a number of at least 0 and at most 10,"),
        ({"base_exponent": 100}, "base_exponent must be a number of at least 0 and at most 10,"),
        ({"warmup": -1}, "warmup must be a whole number of at least 0, not -1"),
        ({"warmup": 0.1}, "warmup must be a whole number of at least 0, not 0.1"),
        ({"decay": -0.1}, "decay must be a number of at least 0 and at most 1, not -0.1"),
        ({"decay": 2}, "decay must be a number of at least 0 and at most 1, not 2"),
    ],
)
def test_bad_settings_get_a_sentence(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Ranker(**({"method": "wd-lgcn"} | options))  # type: ignore[arg-type]


def test_the_rate_s_schedule_is_read_from_text_and_its_bounds_are_allowed() -> None:
    assert TrainingSettings.parse({"warmup": "20", "decay": "0.5"}) == {"warmup": 20, "decay": 0.5}
    for decay in (0, 1.0):
        assert METHODS["wd-lgcn"].settings(warmup=0, decay=decay).decay == decay
    with pytest.raises(InputError, match=r"decay must be .* at most 1, not 2\.0"):
        TrainingSettings.parse({"decay": "2"})
    with pytest.raises(InputError, match=r"warmup cannot be '0\.5': that is not a whole number"):
        TrainingSettings.parse({"warmup": "0.5"})


def test_an_absent_device_is_named() -> None:
    with pytest.raises(InputError, match="choose auto, cpu or cuda"):
        Ranker("wd-lgcn", device="tpu").fit(NAMED)


def test_a_last_split_needs_an_order() -> None:
    unordered = Interactions.from_pairs([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
    with pytest.raises(InputError, match="order"):
        Ranker("wd-lgcn", device="cpu").fit(unordered, 0.3, valid_split="last")


def test_order_counts_where_it_is_known_and_nobody_said_otherwise() -> None:
    users, items = [0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 0]
    log = {known: Interactions.from_pairs(users, items, ordered=known) for known in (True, False)}

    def recency(ordered: bool, **given: Any) -> Any:
        ranker = Ranker("densirank", dim=2, iterations=1, device="cpu", **given)
        return ranker.fit(log[ordered]).settings_.recency

    assert recency(True) > 0
    assert recency(False) == 0
    assert recency(True, recency=0.0) == 0
    with pytest.raises(InputError, match="order of time"):
        recency(False, recency=1.0)


def test_a_ranker_that_is_fitted_again_forgets_the_order_of_the_first_data() -> None:
    users, items = [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]
    ranker = Ranker("densirank", device="cpu", dim=2, iterations=1)
    ranker.fit(Interactions.from_pairs(users, items, ordered=True))
    assert ranker.settings_.recency > 0
    assert ranker.fit(Interactions.from_pairs(users, items)).settings_.recency == 0


def test_weights_that_a_risk_would_not_look_at_are_refused() -> None:
    with pytest.raises(InputError, match="unknown setting 'user_exponent' of bpr-mf"):
        Ranker("bpr-mf", user_exponent=0.5, iterations=1, device="cpu").fit([(0, 1), (1, 0)])


def test_what_only_a_fit_can_tell_is_asked_for_in_a_sentence() -> None:
    ranker = Ranker("wd-mf", device="cpu", dim=2)
    for ask in (
        lambda: ranker.recommend(),
        lambda: ranker.scorer_,
        lambda: ranker.settings_,
        lambda: ranker.item_vectors_,
        lambda: ranker.evaluate([(1, 2)]),
        lambda: ranker.save("nowhere"),
        lambda: ranker.update([(1, 2)]),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet: call fit"):
            ask()
    assert not hasattr(ranker, "scorer_")
    with pytest.raises(AttributeError, match="no attribute 'recomend'"):
        ranker.recomend()


def test_the_constructor_keeps_what_it_was_given() -> None:
    given: dict[str, Any] = {
        "method": "densirank",
        "seed": 3,
        "device": "cpu",
        "precision": "float32",
        "dim": 4,
    }
    ranker = Ranker(**given)
    assert ranker.get_params() == given
    ranker.set_params(iterations=2).fit([(user, item) for user in range(4) for item in range(3)])
    assert ranker.get_params() == given | {"iterations": 2}
    assert (ranker.settings_.dim, ranker.settings_.filter_weight) == (4, 0.1)
    with pytest.raises(InputError, match="dim must be"):
        ranker.set_params(dim=0)
    assert ranker.get_params()["dim"] == 4


def test_a_method_is_named_or_the_choice_is_left_to_autofit() -> None:
    with pytest.raises(InputError, match=r"method is required.*autofit"):
        Ranker()


def test_scores_of_pairs_are_those_of_the_whole_table(ranker: Ranker) -> None:
    users, items = ranker.interactions_.user_ids.ids, ranker.interactions_.item_ids.ids
    table = ranker.user_vectors_ @ ranker.item_vectors_.T
    chance = np.random.default_rng(0)
    rows, columns = chance.integers(len(users), size=50), chance.integers(len(items), size=50)
    np.testing.assert_allclose(
        ranker.scores(users[rows], items[columns]), table[rows, columns], rtol=1e-5
    )
    np.testing.assert_allclose(ranker.scores(int(users[3]), items[:5]), table[3, :5], rtol=1e-5)
    with pytest.raises(InputError, match="2 users and 3 items do not make pairs"):
        ranker.scores(users[:2], items[:3])


def test_similar_users_are_at_the_smallest_angle(ranker: Ranker) -> None:
    users = ranker.interactions_.user_ids.ids
    directions = ranker.user_vectors_ / np.linalg.norm(ranker.user_vectors_, axis=1, keepdims=True)
    cosines = directions @ directions[2]
    cosines[2] = -np.inf
    near = ranker.similar_users(int(users[2]), 4)
    assert near["user_id"].to_list() == users[np.argsort(-cosines, kind="stable")[:4]].tolist()
    np.testing.assert_allclose(near["score"], np.sort(cosines)[::-1][:4], rtol=1e-5)
    with pytest.raises(InputError, match="has no vectors of users"):
        Ranker("ease").fit(WORLD.train).similar_users(int(users[2]))


def test_progress_is_shown_where_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    Ranker("wd-mf", device="cpu", dim=2, iterations=50).fit(NAMED, progress=True)
    assert "iteration 50/50" in capfd.readouterr().err
    Ranker("wd-mf", device="cpu", dim=2, iterations=50).fit(NAMED)
    assert capfd.readouterr().err == ""
