"""Users, items and the model itself can be looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from densirank import Ranker, __version__
from densirank.storage import save_metrics

Serve = Callable[..., AbstractContextManager[TestClient]]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory, serve: Serve) -> Iterator[TestClient]:
    """A server of a model whose ids are integers, with titles for some items."""
    folder = tmp_path_factory.mktemp("numbers")
    pairs = [(user, item) for user in range(8, 31) for item in range(95, 125) if (user + item) % 4]
    Ranker("wd-mf", dim=2, iterations=5, device="cpu").fit(pairs).save(folder / "model")
    titles = folder / "titles.csv"
    titles.write_text("item_id,title\n100,The Red Tea\n101,Black tea\n7,Gone\n102,\n")
    with serve(folder / "model", titles=titles) as client:
        yield client


def odd_ids(ranker: Ranker) -> list[str]:
    return [str(i) for i in ranker.interactions_.user_ids.ids if not str(i).startswith("user")]


def test_ids_with_any_character_are_found_at_their_address(
    client: TestClient, ranker: Ranker
) -> None:
    assert len(odd_ids(ranker)) == 4
    for identifier in odd_ids(ranker):
        address = quote(identifier, safe="")
        assert client.get(f"/v1/users/{address}").json()["id"] == identifier
        near = client.get(f"/v1/items/{address}/similar", params={"k": 3}).json()["items"]
        expected = ranker.similar_items(identifier, 3)
        assert [item["id"] for item in near] == expected["item_id"].to_list()
        assert [item["score"] for item in near] == pytest.approx(expected["score"].to_list())


def test_a_users_history_stands_newest_first(client: TestClient, ranker: Ranker) -> None:
    data = ranker.interactions_
    (index,) = data.user_ids.known("user5", "user")
    card = client.get("/v1/users/user5").json()
    ids = [data.item_ids[item] for item in data.items_of(int(index))]
    assert [item["id"] for item in card["history"]] == ids[::-1]
    assert card["entropy"] == pytest.approx(ranker.entropy("user5")["entropy"][0], rel=1e-4)


def test_who_is_unknown_is_not_found(client: TestClient) -> None:
    for address, code in (
        ("/v1/users/nobody", "unknown_user"),
        ("/v1/items/nothing/similar", "unknown_item"),
    ):
        answer = client.get(address)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code)


def test_users_are_searched_by_the_beginning_of_their_id(client: TestClient) -> None:
    found = client.get("/v1/users", params={"query": "user1"}).json()["users"]
    assert [user["id"] for user in found] == ["user1", *(f"user{n}" for n in range(10, 16))]
    assert len(client.get("/v1/users", params={"limit": 3}).json()["users"]) == 3


def test_numbers_may_be_spelt_out(numbers: TestClient) -> None:
    by_number = numbers.post("/v1/recommend", json={"users": [9], "exclude": [100]}).json()
    by_text = numbers.post("/v1/recommend", json={"users": ["9"], "exclude": ["100"]}).json()
    assert by_number == by_text
    assert by_number["results"][0]["user"] == 9
    mixed = numbers.post("/v1/recommend", json={"users": [9, "10"]}).json()["results"]
    assert [result["user"] for result in mixed] == [9, 10]
    assert numbers.post("/v1/recommend", json={"users": ["nine"]}).status_code == 404


def test_numbers_are_searched_by_their_digits(numbers: TestClient) -> None:
    found = numbers.get("/v1/users", params={"query": "1"}).json()["users"]
    assert [user["id"] for user in found] == list(range(10, 20))


def test_items_without_a_query_are_the_most_popular(client: TestClient) -> None:
    found = client.get("/v1/items", params={"limit": 5}).json()["items"]
    popularity = [item["popularity"] for item in found]
    assert len(found) == 5
    assert popularity == sorted(popularity, reverse=True)


def test_items_are_found_by_words_of_their_title(numbers: TestClient) -> None:
    def found(query: str) -> list[tuple[int, str | None]]:
        items = numbers.get("/v1/items", params={"query": query}).json()["items"]
        return [(item["id"], item["title"]) for item in items]

    assert sorted(found("TEA")) == [(100, "The Red Tea"), (101, "Black tea")]
    assert found("tea red") == [(100, "The Red Tea")]
    assert found("gone") == []
    assert (102, None) in found("10")
    assert found("t.a") == []


def test_titles_stand_beside_every_item(numbers: TestClient) -> None:
    answer = numbers.post("/v1/recommend", json={"users": [8], "k": 100, "filter_seen": False})
    titles = {item["id"]: item["title"] for item in answer.json()["results"][0]["items"]}
    expected = dict.fromkeys(range(95, 125)) | {100: "The Red Tea", 101: "Black tea"}
    assert titles == expected


def test_the_card_tells_how_the_model_came_about(client: TestClient, folder: Path) -> None:
    card = client.get("/v1/model").json()
    manifest = json.loads((folder / "model.json").read_text())
    for key in ("settings", "seed", "created", "data", "training"):
        assert card[key] == manifest[key]
    assert card["method"] == "wd-mf"
    assert card["densirank"] == __version__
    assert card["calibration"] is None
    assert card["metrics"] is None


def test_the_card_shows_the_figures_that_were_kept(own_folder: Path, serve: Serve) -> None:
    save_metrics(own_folder, {"ndcg@20": 0.25, "users": 7})
    with serve(own_folder) as client:
        assert client.get("/v1/model").json()["metrics"] == {"ndcg@20": 0.25, "users": 7}


@pytest.mark.parametrize(
    "address",
    ["/v1/users?limit=0", "/v1/users?limit=1000", "/v1/items?query=" + "x" * 101],
)
def test_searches_are_bounded(client: TestClient, address: str) -> None:
    assert client.get(address).status_code == 422
