"""Answers to requests for lists say what the ranker says, in one format for everybody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from starlette.testclient import TestClient

from densirank import Interactions, Ranker, load
from densirank.scores import Calibration
from densirank.serving import batching as computing
from densirank.serving import engine as recommending
from densirank.serving.schema import MAX_EXPLAINED, MAX_K, MAX_USERS
from densirank.storage import load_index

Serve = Callable[..., AbstractContextManager[TestClient]]


def ask(client: TestClient, **request: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/recommend", json=request)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    return results


def refused(client: TestClient, **request: Any) -> tuple[int, str]:
    answer = client.post("/v1/recommend", json=request)
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    return answer.status_code, error["code"]


def check(result: dict[str, Any], expected: pl.DataFrame) -> None:
    items = result["items"]
    assert [item["id"] for item in items] == expected["item_id"].to_list()
    for column in ("score", "probability"):
        np.testing.assert_allclose([item[column] for item in items], expected[column], rtol=1e-4)


def test_a_known_users_list_is_the_rankers(client: TestClient, ranker: Ranker) -> None:
    (result,) = ask(client, users=["user3"], k=7)
    check(result, ranker.recommend("user3", k=7))
    assert result["user"] == "user3"
    assert result["kind"] == "known"
    spread = ranker.entropy("user3")
    assert result["entropy"] == pytest.approx(spread["entropy"][0], rel=1e-4)
    assert result["effective_items"] == pytest.approx(spread["effective_items"][0], rel=1e-4)


def test_every_option_of_a_list_is_the_rankers(client: TestClient, ranker: Ranker) -> None:
    allowed = [f"item{n}" for n in range(12)]
    (result,) = ask(client, users=["#1"], items=allowed, exclude=["item4"], filter_seen=False, k=20)
    expected = ranker.recommend("#1", 20, items=allowed, exclude=["item4"], filter_seen=False)
    check(result, expected)
    assert len(result["items"]) == 11
    assert sum(item["probability"] for item in result["items"]) == pytest.approx(1, rel=1e-4)


def test_lists_can_be_ranked_by_probability(own_folder: Path, ranker: Ranker, serve: Serve) -> None:
    own = load(own_folder, "cpu")
    own.calibration_ = Calibration(temperature=2.0, popularity_exponent=1.5)
    own.save(own_folder)
    with serve(own_folder) as client:
        (result,) = ask(client, users=["user3"], rank_by="probability")
        assert refused(client, users=["user3"], rank_by="taste")[1] == "invalid_request"
        for other in ("sample", "approximate"):
            said = refused(client, users=["user3"], rank_by="probability", **{other: True})
            assert said == (422, "invalid_request")
    check(result, own.recommend("user3", rank_by="probability"))
    ids = [item["id"] for item in result["items"]]
    assert ids != own.recommend("user3")["item_id"].to_list()


def test_a_large_request_is_answered_like_many_small_ones(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    users = [f"user{n}" for n in range(16)]
    apart = [ask(client, users=[user], k=9)[0] for user in users]
    monkeypatch.setattr(recommending, "MAX_TOGETHER", 20)
    monkeypatch.setattr(computing, "answer_together", None)
    together = ask(client, users=users, k=9)
    for one, other in zip(apart, together, strict=True):
        assert [item["id"] for item in one["items"]] == [item["id"] for item in other["items"]]
        assert one["entropy"] == pytest.approx(other["entropy"], rel=1e-4)


def test_results_stand_in_the_order_of_the_request(client: TestClient) -> None:
    users = ["user9", "user1", "user9", "a/b/similar"]
    assert [result["user"] for result in ask(client, users=users)] == users


def test_requests_that_are_computed_together_are_answered_apart(
    client: TestClient, ranker: Ranker
) -> None:
    asked = [(f"user{n % 16}", 1 + n % 9, n % 5 > 0) for n in range(60)]

    def one(case: tuple[str, int, bool]) -> dict[str, Any]:
        return ask(client, users=[case[0]], k=case[1], filter_seen=case[2])[0]

    with ThreadPoolExecutor(12) as pool:
        results = list(pool.map(one, asked))
    for (user, k, filter_seen), result in zip(asked, results, strict=True):
        assert result["user"] == user
        check(result, ranker.recommend(user, k, filter_seen=filter_seen))


def test_a_history_is_folded_in(client: TestClient, ranker: Ranker) -> None:
    histories = [["item1", "item5", "item9"], ["#1"]]
    results = ask(client, histories=histories, k=4)
    folded = ranker.fold_in([(n, item) for n, history in enumerate(histories) for item in history])
    for number, result in enumerate(results):
        assert (result["user"], result["kind"]) == (None, "folded-in")
        check(result, folded.recommend(number, k=4))


def test_a_drawn_slate_is_the_rankers_and_carries_its_propensities(
    client: TestClient, ranker: Ranker
) -> None:
    (result,) = ask(client, users=["user2"], k=5, sample=True, temperature=2.0, seed=11)
    expected = ranker.sample("user2", 5, temperature=2.0, seed=11)
    check(result, expected)
    propensities = [item["log_propensity"] for item in result["items"]]
    np.testing.assert_allclose(propensities, expected["log_propensity"], rtol=1e-4)


def test_a_draw_without_a_seed_is_told_the_one_it_got(client: TestClient) -> None:
    request = {"users": ["user2"], "k": 5, "sample": True}
    first = client.post("/v1/recommend", json=request).json()
    again = client.post("/v1/recommend", json=request | {"seed": first["seed"]}).json()
    assert again == first
    others = [client.post("/v1/recommend", json=request).json()["seed"] for _ in range(3)]
    assert len({first["seed"], *others}) == 4


@pytest.mark.parametrize("request_for", [{"users": ["user2"]}, {"histories": [["item1", "#1"]]}])
def test_reasons_are_the_rankers(
    client: TestClient, ranker: Ranker, request_for: dict[str, Any]
) -> None:
    (result,) = ask(client, **request_for, k=3, explain=True)
    who = ranker
    user: int | str = "user2"
    if "histories" in request_for:
        who, user = ranker.fold_in([(0, "item1"), (0, "#1")]), 0
    for item in result["items"]:
        expected = who.explain(user, item["id"], k=5)
        assert [past["id"] for past in item["because"]] == expected["item_id"].to_list()
        got = [past["contribution"] for past in item["because"]]
        np.testing.assert_allclose(got, expected["contribution"], atol=1e-4)


def test_an_item_is_no_reason_for_itself(client: TestClient) -> None:
    (result,) = ask(client, histories=[["item1"]], k=24, filter_seen=False, explain=True)
    reasons = {item["id"]: [past["id"] for past in item["because"]] for item in result["items"]}
    assert reasons["item1"] == []
    assert reasons["item2"] == ["item1"]


def test_strangers_are_refused_or_get_what_is_popular(client: TestClient, ranker: Ranker) -> None:
    assert refused(client, users=["user1", "nobody"]) == (404, "unknown_user")
    first, second = ask(client, users=["nobody", "user1"], unknown="popular", k=24, explain=True)
    assert (first["user"], first["kind"]) == ("nobody", "popular")
    assert second["kind"] == "known"
    smoothed = ranker.interactions_.item_counts + 1
    ids = ranker.interactions_.item_ids.ids
    shares = dict(zip(ids, smoothed / smoothed.sum(), strict=True))
    for item in first["items"]:
        assert item["probability"] == pytest.approx(shares[item["id"]], rel=1e-4)
    assert len(first["items"]) == 24


def test_a_history_of_unknown_items_follows_the_same_policy(client: TestClient) -> None:
    histories = [["item1", "novelty"], ["novelty"]]
    assert refused(client, histories=histories) == (404, "unknown_item")
    (alone,) = ask(client, histories=histories[:1], k=3)  # an item that is known is enough
    first, second = ask(client, histories=histories, unknown="popular", k=3)
    assert first == alone
    assert (first["kind"], second["kind"]) == ("folded-in", "popular")
    assert first["items"] == ask(client, histories=[["item1"]], k=3)[0]["items"]


@pytest.mark.parametrize(
    "request_for",
    [
        {},
        {"users": []},
        {"users": ["user1"], "histories": [["item1"]]},
        {"histories": [[]]},
        {"users": ["user1"], "k": 0},
        {"users": ["user1"], "k": MAX_K + 1},
        {"users": ["user1"], "k": 2.5},
        {"users": ["user1"], "k": True},
        {"users": [True]},
        {"users": [1.5]},
        {"users": [None]},
        {"users": "user1"},
        {"users": [2**63]},
        {"users": ["u" * 1000]},
        {"users": ["user1"] * (MAX_USERS + 1)},
        {"users": ["user1"], "temperature": 0},
        {"users": ["user1"], "seed": -1},
        {"users": ["user1"], "unknown": "guess"},
        {"users": ["user1"], "items": []},
        {"users": ["user1"], "colour": "red"},
        {"users": ["user1"], "k": MAX_EXPLAINED + 1, "explain": True},
        {"users": ["user1"], "sample": True, "approximate": True},
    ],
)
def test_what_makes_no_sense_is_refused(client: TestClient, request_for: dict[str, Any]) -> None:
    assert refused(client, **request_for) == (422, "invalid_request")


def test_unknown_items_to_allow_or_exclude_are_ignored_and_counted(client: TestClient) -> None:
    for key in ("items", "exclude"):
        known = ["item1", "item4", "item5"]
        answer = client.post(
            "/v1/recommend", json={"users": ["user1"], key: [*known, "novelty", "[red]"]}
        ).json()
        assert answer["unknown_items"] == 2
        assert answer["results"] == ask(client, users=["user1"], **{key: known})
    nothing = client.post("/v1/recommend", json={"users": ["user1"], "items": ["novelty"]}).json()
    assert (nothing["unknown_items"], nothing["results"][0]["items"]) == (1, [])
    plain = client.post("/v1/recommend", json={"users": ["user1"]}).json()
    assert plain["unknown_items"] == 0


def test_unknown_people_can_be_skipped(client: TestClient) -> None:
    skipped, listed = ask(client, users=["nobody", "user1"], unknown="skip", k=3)
    assert skipped == {
        "user": "nobody",
        "kind": "skipped",
        "items": [],
        "entropy": None,
        "effective_items": None,
    }
    (alone,) = ask(client, users=["user1"], k=3)
    assert [item["id"] for item in listed["items"]] == [item["id"] for item in alone["items"]]
    histories = [["novelty"], ["item1", "novelty"]]
    request = {"histories": histories, "unknown": "skip"}
    answer = client.post("/v1/recommend", json=request).json()
    assert [result["kind"] for result in answer["results"]] == ["skipped", "folded-in"]
    assert answer["unknown_items"] == 2


def test_an_error_names_ten_unknown_users(client: TestClient) -> None:
    users = [f"u{n}" for n in range(12)]
    answer = client.post("/v1/recommend", json={"users": ["user1", *users, *users]})
    assert answer.status_code == 404
    assert answer.json()["error"]["message"] == (
        f"the model does not know the user {', '.join(users[:10])} and 2 more"
    )


def test_a_service_has_a_fallback_of_its_own(own_folder: Path, serve: Serve) -> None:
    with serve(own_folder, unknown="popular") as client:
        first, second = ask(client, users=["nobody", "user1"])
        assert (first["kind"], second["kind"]) == ("popular", "known")
        assert refused(client, users=["nobody"], unknown="error") == (404, "unknown_user")


def test_whoever_had_everything_gets_an_empty_list(client: TestClient) -> None:
    (result,) = ask(client, users=["user1"], items=["item1"], exclude=["item1"])
    assert result["items"] == []
    assert (result["entropy"], result["effective_items"]) == (0, 0)


def test_an_index_finds_the_same_items_and_knows_no_probabilities(
    own_folder: Path, ranker: Ranker, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(own_folder, "cpu").build_index("clusters").save(own_folder)
    read: list[Path] = []

    def counted(folder: Path, *rest: Any) -> Any:
        read.append(folder)
        return load_index(folder, *rest)

    monkeypatch.setattr("densirank.ranker.load_index", counted)
    with serve(own_folder) as client:
        (known,) = ask(client, users=["user3"], k=5, approximate=True)
        (folded,) = ask(client, histories=[["item1", "item4"]], k=5, approximate=True)
        (exact,) = ask(client, histories=[["item1", "item4"]], k=5)
        card = client.get("/v1/model").json()
    assert [item["id"] for item in known["items"]] == ranker.recommend("user3", 5)[
        "item_id"
    ].to_list()
    assert [item["id"] for item in folded["items"]] == [item["id"] for item in exact["items"]]
    for result in (known, folded):
        assert {item["probability"] for item in result["items"]} == {None}
        assert result["entropy"] is None
        assert result["effective_items"] is None
    assert card["index"]["kind"] == "clusters"
    assert len(read) == 1


def test_without_an_index_an_approximate_list_is_refused(client: TestClient) -> None:
    assert refused(client, users=["user3"], approximate=True) == (422, "cannot_answer")
    assert client.get("/v1/model").json()["index"] is None


def test_a_known_user_without_items_gets_what_is_popular(serve: Serve, tmp_path: Path) -> None:
    weights = [0.0, 1, 1, 1, 1, 1, 1]
    pairs = ["ann", "bob", "bob", "eve", "eve", "zoe", "zoe"], [*"aabbcac"]
    ranker = Ranker("wd-mf", dim=2, iterations=5, device="cpu")
    ranker.fit(Interactions.from_pairs(*pairs, weights=weights)).save(tmp_path / "model")
    with serve(tmp_path / "model") as client:
        for options in ({}, {"sample": True, "seed": 3}, {"explain": True}):
            results = ask(client, users=["bob", "ann", "zoe"], k=2, **options)
            assert [result["user"] for result in results] == ["bob", "ann", "zoe"]
            assert [result["kind"] for result in results] == ["known", "popular", "known"]
            if "seed" in options:
                check(results[1], ranker.sample("ann", 2, seed=3))
            else:
                check(results[1], ranker.recommend("ann", 2))
        (alone,) = ask(client, users=["ann"], k=2)
        assert (alone["user"], alone["kind"]) == ("ann", "popular")
        assert client.get("/v1/users/ann").json()["entropy"] > 0
