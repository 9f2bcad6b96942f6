"""Who may ask, how much, and what outsiders get to see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send

from densirank.errors import InputError
from densirank.serving.middleware import ApiKeys, Guarded

Serve = Callable[..., AbstractContextManager[TestClient]]
KEYS = ["the-first-secret-key", "the-second-secret-key"]


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.txt"
    path.write_text("# ours\n" + "\n\n".join(KEYS) + "\n")
    return path


def test_every_key_of_the_file_opens_v1_and_nothing_else_does(
    folder: Path, keys: Path, serve: Serve
) -> None:
    with serve(folder, api_key_file=keys) as client:
        for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEYS[0]}):
            answer = client.get("/v1/model", headers=header)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorised")
            assert answer.headers["WWW-Authenticate"] == "Bearer"
        for key in KEYS:
            bearer = {"Authorization": f"Bearer {key}"}
            assert client.get("/v1/model", headers=bearer).status_code == 200
        for address in ("/healthz", "/readyz", "/metrics", "/", "/openapi.json"):
            assert client.get(address).status_code == 200
        for guarded in ("/v1/recommend", "/v1/reload"):
            assert client.post(guarded, content=b"{").status_code == 401


def test_all_keys_are_compared_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(other)
        return one == other

    monkeypatch.setattr("densirank.serving.middleware.hmac.compare_digest", counting)
    keys = ApiKeys(KEYS)
    assert keys.accept(KEYS[0])
    assert len(compared) == len(KEYS)
    assert not any(key.encode() in digest for key in KEYS for digest in compared)


@pytest.mark.parametrize(
    ("text", "complaint"), [("", "no keys"), ("# none\n", "no keys"), ("short\n", "at least 16")]
)
def test_a_file_of_bad_keys_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "keys"
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        ApiKeys.read(path)


def test_a_long_body_is_refused_whether_its_length_is_told_or_not(
    folder: Path, serve: Serve
) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(20):
            yield b" " * 100

    with serve(folder, max_body_bytes=1000) as client:
        for content in (b" " * 2000, parts()):
            answer = client.post("/v1/recommend", content=content)
            assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")
        assert client.post("/v1/recommend", json={"users": ["user1"]}).status_code == 200


def test_a_body_that_does_not_come_is_given_up() -> None:
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Response()(scope, receive, send)

    async def never() -> Message:
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/v1/recommend", "headers": [(b"content-length", b"10")]}
    guarded = Guarded(app, keys=None, max_body_bytes=100, max_seconds=0.01)
    asyncio.run(guarded(scope, never, send))
    assert sent[0]["status"] == 408


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"k": 1' + b"0" * 5000 + b"}",
        b'"\\ud800"',
        b"null",
        b"",
    ],
)
def test_a_body_that_is_no_json_is_refused_in_a_sentence(client: TestClient, body: bytes) -> None:
    answer = client.post(
        "/v1/recommend", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code in (400, 422)
    assert set(answer.json()["error"]) == {"code", "message"}


def test_a_defect_shows_no_traceback_to_clients(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a secret of the house")

    monkeypatch.setattr("densirank.serving.routes.plain", broken)
    answer = client.post("/v1/recommend", json={"users": ["user1"]}, headers={"X-Request-ID": "r7"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert "request r7 failed" in caplog.text
    assert "a secret of the house" in caplog.text
    assert 'status="500"' in client.get("/metrics").text


def test_requests_have_ids_in_answers_and_logs(
    client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="densirank.serving")
    own = client.get("/healthz", headers={"X-Request-ID": "mine-1"})
    assert own.headers["X-Request-ID"] == "mine-1"
    ids = {client.get("/healthz").headers["X-Request-ID"] for _ in range(3)}
    assert len(ids) == 3
    for identifier in ("mine-1", *ids):
        assert f"request {identifier} GET '/healthz' 200" in caplog.text
    forged = client.get("/healthz", headers={"X-Request-ID": "two words"})
    assert forged.headers["X-Request-ID"] != "two words"
