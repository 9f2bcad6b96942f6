"""Another model takes the place of the one that is served, while requests run."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from densirank import Ranker
from densirank.errors import StorageError
from densirank.serving import batching as computing
from densirank.serving import engine as recommending
from densirank.serving.engine import Engine
from densirank.serving.metrics import Metrics
from densirank.serving.reload import LiveModel

Serve = Callable[..., AbstractContextManager[TestClient]]


def another(ranker: Ranker, folder: Path) -> None:
    """Put another model into a folder."""
    other = Ranker("wd-mf", dim=4, iterations=10, device="cpu", seed=1)
    other.fit(ranker.interactions_).save(folder)


def break_model(folder: Path) -> None:
    manifest = folder / "model.json"
    content = json.loads(manifest.read_text())
    content["files"]["vectors"]["sha256"] = "0" * 64
    manifest.write_text(json.dumps(content))


def served(client: TestClient) -> str:
    answer = client.post("/v1/recommend", json={"users": ["user1"]})
    assert answer.status_code == 200
    return str(answer.json()["model"])


def test_a_reload_serves_the_folders_new_model(
    own_folder: Path, ranker: Ranker, serve: Serve
) -> None:
    with serve(own_folder) as client:
        before = served(client)
        same = client.post("/v1/reload").json()
        another(ranker, own_folder)
        assert served(client) == before
        now = client.post("/v1/reload").json()
        assert same == {"model": before, "changed": False}
        assert now == {"model": served(client), "changed": True}
        assert now["model"] != before
        workers = [line for line in client.get("/metrics").text.splitlines() if "_workers{" in line]
        assert [line.endswith(" 1.0") for line in workers] == [before not in w for w in workers]


def test_a_broken_model_keeps_the_old_one_serving_and_says_so(
    own_folder: Path, ranker: Ranker, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    with serve(own_folder) as client:
        before = served(client)
        break_model(own_folder)
        answer = client.post("/v1/reload")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "reload_failed")
        assert "damaged" in answer.json()["error"]["message"]
        assert "damaged" in caplog.text
        assert served(client) == before
        assert client.get("/readyz").json()["last_reload_failed"] is True
        assert "densirank_reload_failures_total 1.0" in client.get("/metrics").text
        another(ranker, own_folder)
        assert client.post("/v1/reload").json()["changed"] is True
        assert client.get("/readyz").json()["last_reload_failed"] is False


def test_a_request_under_way_finishes_on_the_model_it_began_with(
    own_folder: Path, ranker: Ranker, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*args: Any) -> list[bytes]:
        begun.set()
        assert go_on.wait(10)
        return recommending.answer_together(*args)

    with serve(own_folder) as client:
        before = served(client)
        monkeypatch.setattr(computing, "answer_together", slow)
        under_way: list[str] = []
        thread = threading.Thread(target=lambda: under_way.append(served(client)))
        thread.start()
        assert begun.wait(10)
        another(ranker, own_folder)
        after = client.post("/v1/reload").json()["model"]
        assert client.get("/healthz").status_code == 200
        go_on.set()
        thread.join()
        assert under_way == [before]
        assert served(client) == after != before


def test_a_watched_folder_is_picked_up_broken_or_not(own_folder: Path, ranker: Ranker) -> None:
    live = LiveModel(own_folder, None, Metrics(None))
    first = live.engine.fingerprint

    async def until(done: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not done():
                await asyncio.sleep(0.01)

    async def story() -> None:
        watching = asyncio.create_task(live.watch(0.01))
        another(ranker, own_folder)
        await until(lambda: live.engine.fingerprint != first)
        second = live.engine.fingerprint
        break_model(own_folder)
        await until(lambda: live.failure is not None)
        assert live.engine.fingerprint == second
        ranker.save(own_folder)
        await until(lambda: live.failure is None)
        assert live.engine.fingerprint not in (first, second)
        watching.cancel()

    asyncio.run(story())


def test_a_folder_that_changes_while_it_is_read_is_read_again(
    own_folder: Path, ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = Engine.load
    loads: list[Engine] = []

    def interrupted(folder: Path, titles: Path | None) -> Engine:
        engine = load(folder, titles)
        loads.append(engine)
        if len(loads) == 1:
            another(ranker, folder)
        elif len(loads) == 2:
            another(ranker, folder)
            raise StorageError("its files went away")
        return engine

    monkeypatch.setattr(Engine, "load", interrupted)
    live = LiveModel(own_folder, None, Metrics(None))
    assert len(loads) == 3
    assert live.engine is loads[-1]
    assert live.reload() is False
