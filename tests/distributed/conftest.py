from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

SCENES = Path(__file__).with_name("scenes.py")
TIME_LIMIT = 30 + float(os.environ.get("DENSIRANK_TEST_PATIENCE", "120"))
"""Seconds; a scene ends its processes before."""


@dataclass(frozen=True)
class Played:
    """How processes have ended, and what they have printed; files are in their scene's folder."""

    folder: str
    status: int
    stdout: str
    stderr: str


Play = Callable[[str], Played]
Run = Callable[..., Played]


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a test run share."""
    root = tmp_path_factory.getbasetemp()
    stage = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "stage"
    stage.mkdir(exist_ok=True)
    return stage


@pytest.fixture(scope="session")
def scene(stage: Path) -> Play:
    """Plays a scene of ``scenes.py`` in processes of its own, once for all its tests."""

    def play(name: str) -> Played:
        folder, record = stage / name, stage / f"{name}.json"
        with _one_at_a_time(stage):
            if not record.exists():
                folder.mkdir()
                record.write_text(json.dumps(asdict(_run(folder, name, folder))))
        played = Played(**json.loads(record.read_text()))
        assert played.status == 0, played.stderr
        return played

    return play


@pytest.fixture(scope="session")
def processes(stage: Path) -> Run:
    """Runs what torchrun would run in several processes that find each other, as torchrun's do."""

    def run(n: int, *words: object) -> Played:
        with _one_at_a_time(stage):
            return _run(stage, "run", n, *words)

    return run


@pytest.fixture
def stage_to_itself(stage: Path) -> Iterator[None]:
    """For a test that starts processes in its own way."""
    with _one_at_a_time(stage):
        yield


def _run(folder: Path, *words: object) -> Played:
    try:
        done = subprocess.run(
            [sys.executable, str(SCENES), *map(str, words)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as hung:
        return Played(str(folder), 1, "", f"{words} took more than {hung.timeout} s")
    return Played(str(folder), done.returncode, done.stdout, done.stderr)


@contextmanager
def _one_at_a_time(stage: Path) -> Iterator[None]:
    """Two scenes at once would have more processes than a small machine has cores."""
    with (stage / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
