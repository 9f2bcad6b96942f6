"""``densirank serve`` as an operator runs it: started, given a new model, stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from forking import free_port
from typer.testing import CliRunner

from densirank import Ranker
from densirank.cli.app import app
from densirank.errors import DensirankError

PATIENCE = 120.0


def until(done: Callable[[], Any], server: subprocess.Popen[bytes]) -> Any:
    """What a question comes to, once it comes to something."""
    patience = time.monotonic() + PATIENCE
    while time.monotonic() < patience:
        assert server.poll() is None, "the server ended"
        try:
            if found := done():
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(0.1)
    raise AssertionError("it did not come about in time")


def get(port: int, address: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{address}", timeout=20) as answer:
        return str(answer.read().decode())


def models_served(port: int) -> dict[str, float]:
    """How many workers serve each model, as any worker tells it of all."""
    pattern = r"densirank_model_workers\{.*model=\"(\w+)\"\} (\S+)"
    counts = re.findall(pattern, get(port, "/metrics"))
    return {model: float(count) for model, count in counts if float(count)}


def test_two_workers_start_pick_up_a_new_model_and_stop(own_folder: Path, ranker: Ranker) -> None:
    port = free_port()

    def not_served(model: str) -> bool:
        return model not in models_served(port)

    command = [sys.executable, "-m", "densirank", "serve", own_folder, "--port", port]
    command += ["--workers", 2, "--watch", 0.1]
    server = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE)
    try:
        until(lambda: list(models_served(port).values()) == [2.0], server)
        (before,) = models_served(port)
        Ranker("wd-mf", dim=4, iterations=3, device="cpu").fit(ranker.interactions_).save(
            own_folder
        )
        until(
            lambda: before not in (found := models_served(port)) and sum(found.values()) == 2,
            server,
        )
        (after,) = models_served(port)
        body = json.dumps({"users": ["user1"]}).encode()
        headers = {"Content-Type": "application/json"}
        address = f"http://127.0.0.1:{port}/v1/recommend"
        with urllib.request.urlopen(urllib.request.Request(address, body, headers)) as answer:
            assert json.load(answer)["model"] == after
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    log = said.decode()
    assert server.returncode in (0, -signal.SIGTERM)
    assert log.count("replaced") == 2
    assert "'/v1/recommend' 200" in log
    assert "Traceback" not in log


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the HTTP server was asked to do, instead of doing it."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **how: asked.append({"app": app} | how))
    monkeypatch.setattr("densirank.serving.app.prepare_process", lambda: None)
    return asked


def serve(*words: object) -> str:
    done = CliRunner().invoke(app, ["serve", *map(str, words)], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def test_it_listens_on_this_machine_alone_unless_told_otherwise(
    folder: Path, ran: list[dict[str, Any]], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("a-key-that-is-long-enough\n")
    assert "warning" not in serve(folder)
    assert "warning" not in serve(folder, "--host", "::1")
    assert "no key is required" in serve(folder, "--host", "0.0.0.0")
    assert "warning" not in serve(folder, "--host", "0.0.0.0", "--api-key-file", keys)
    assert [how["host"] for how in ran] == ["127.0.0.1", "::1", "0.0.0.0", "0.0.0.0"]


def test_what_is_wrong_with_a_model_or_a_file_is_told_before_anything_listens(
    ran: list[dict[str, Any]], folder: Path, tmp_path: Path
) -> None:
    for words in (
        [tmp_path / "nothing"],
        [tmp_path / "nothing", "--workers", 2],
        [folder, "--titles", tmp_path / "none.csv"],
        [folder, "--api-key-file", tmp_path / "none"],
    ):
        with pytest.raises(DensirankError):
            serve(*words)
    assert ran == []
    assert "DENSIRANK_SERVE" not in os.environ
