"""The addresses, their description, and the page."""

from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from densirank.serving.app import PAGE

CONTRACT = {
    ("POST", "/v1/recommend"),
    ("GET", "/v1/users"),
    ("GET", "/v1/users/{id}"),
    ("GET", "/v1/items"),
    ("GET", "/v1/items/{id}/similar"),
    ("GET", "/v1/model"),
    ("POST", "/v1/reload"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
}


def described(client: TestClient) -> dict[str, Any]:
    description: dict[str, Any] = client.get("/openapi.json").json()
    return description


def operations(description: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
    }


def test_the_addresses_are_those_agreed_on(client: TestClient) -> None:
    assert set(operations(described(client))) == CONTRACT


def test_every_operation_has_a_summary_and_examples(client: TestClient) -> None:
    description = described(client)
    schemas = description["components"]["schemas"]
    for (method, path), operation in operations(description).items():
        assert operation["summary"], path
        (content,) = operation["responses"]["200"]["content"].values()
        if "$ref" in content["schema"]:
            content = schemas[content["schema"]["$ref"].rpartition("/")[2]]
        assert content.get("examples") or content.get("example"), (method, path)
    assert schemas["RecommendRequest"]["examples"]


def test_every_documented_error_has_the_one_form(client: TestClient) -> None:
    for (_, path), operation in operations(described(client)).items():
        assert "default" not in operation["responses"]
        for status, response in operation["responses"].items():
            if status != "200":
                schema = response["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/ErrorAnswer"), (path, status)


def test_examples_of_requests_are_requests(client: TestClient) -> None:
    for example in described(client)["components"]["schemas"]["RecommendRequest"]["examples"]:
        answer = client.post("/v1/recommend", json=example)
        assert answer.json()["error"]["code"] in ("unknown_user", "unknown_item")


def test_other_addresses_and_methods_are_refused_in_the_same_form(client: TestClient) -> None:
    for method, address, status, code in (
        ("GET", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/recommend", 405, "method_not_allowed"),
        ("DELETE", "/v1/users/user1", 405, "method_not_allowed"),
        ("GET", "/../app.py", 404, "not_found"),
        ("POST", "/", 405, "method_not_allowed"),
    ):
        answer = client.request(method, address)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def test_the_page_is_served_with_a_strict_policy(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.text == (PAGE / "index.html").read_text(encoding="utf-8")
    policy = answer.headers["Content-Security-Policy"].split("; ")
    assert "default-src 'self'" in policy
    assert not any("unsafe" in part or "http" in part for part in policy)
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    for path in PAGE.rglob("*"):
        if path.is_file():
            assert client.get(f"/{path.relative_to(PAGE).as_posix()}").content == path.read_bytes()


def test_metrics_count_requests_by_address_and_not_by_id(client: TestClient) -> None:
    for user in ("user1", "user2", "nobody"):
        client.get(f"/v1/users/{user}")
    client.get("/some/where/else")
    text = client.get("/metrics").text
    assert 'densirank_requests_total{method="GET",route="/v1/users/{id}",status="404"}' in text
    assert 'route="unmatched"' in text
    assert "nobody" not in text
    assert "densirank_request_seconds_bucket" in text
    assert 'densirank_model_workers{method="wd-mf",model="' in text
