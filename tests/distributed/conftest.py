from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

SCENES = Path(__file__).with_name("scenes.py")
TIME_LIMIT = 30 + float(os.environ.get("DENSIRANK_TEST_PATIENCE", "120"))
"""Seconds; a scene ends its processes before."""
STOPPING = 40
"""Seconds that torchrun may take to stop its processes, if need be with -9."""


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


@pytest.fixture(scope="session")
def torchrun(stage: Path) -> Run:
    """Runs torchrun itself."""

    def run(*words: object) -> Played:
        with _one_at_a_time(stage):
            return _ended(stage, sys.executable, "-m", "torch.distributed.run", *words)

    return run


def _run(folder: Path, *words: object) -> Played:
    return _ended(folder, sys.executable, SCENES, *words)


def _ended(folder: Path, *command: object) -> Played:
    """How a command ends; one that hangs is stopped, with all that it has started."""
    started = subprocess.Popen(
        list(map(str, command)),
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        stdout, stderr = started.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(started.pid, how)
                started.wait(STOPPING)
        return Played(str(folder), 1, "", f"{command} took more than {TIME_LIMIT:g} s")
    return Played(str(folder), started.returncode, stdout, stderr)


@contextmanager
def _one_at_a_time(stage: Path) -> Iterator[None]:
    """Two scenes at once would have more processes than a small machine has cores."""
    with (stage / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
