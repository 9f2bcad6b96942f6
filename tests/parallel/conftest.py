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
from tempfile import TemporaryDirectory

import pytest

SCENES = Path(__file__).with_name("scenes.py")
TIME_LIMIT = 30 + float(os.environ.get("DENSIRANK_TEST_PATIENCE", "120"))
"""Seconds; a scene ends its processes before."""
IDLE = ("failures", "meeting", "two_hosts")
"""Scenes in which processes mostly wait: others can be played meanwhile."""


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


Perform = Callable[..., Played]


@pytest.fixture(scope="session")
def perform(stage: Path) -> Iterator[Perform]:
    """Asks ``scenes.py``, which is started when something is to be played first."""
    players: list[subprocess.Popen[str]] = []

    def play(*words: object, folder: Path = stage, **environment: str) -> Played:
        if not players:
            players.append(_players())
        with TemporaryDirectory() as printed:
            texts = {name: Path(printed, name) for name in ("stdout", "stderr")}
            wish = {
                "words": list(map(str, words)),
                "environment": environment,
                "seconds": TIME_LIMIT,
                **{name: str(path) for name, path in texts.items()},
            }
            assert players[0].stdin is not None
            assert players[0].stdout is not None
            players[0].stdin.write(json.dumps(wish) + "\n")
            players[0].stdin.flush()
            status = json.loads(players[0].stdout.readline())
            said = {name: path.read_text() for name, path in texts.items()}
        if status is None:
            return Played(str(folder), 1, "", f"{words} took more than {TIME_LIMIT:g} s")
        return Played(str(folder), status, **said)

    yield play
    for started in players:
        started.communicate()


def _players() -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, str(SCENES)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.fixture(scope="session")
def scene(stage: Path, perform: Perform) -> Play:
    """Plays a scene of ``scenes.py`` in processes of its own, once for all its tests."""

    def play(name: str) -> Played:
        folder, record = stage / name, stage / f"{name}.json"
        with _one_at_a_time(stage, name if name in IDLE else "busy"):
            if not record.exists():
                folder.mkdir()
                done = perform("scene", name, folder, folder=folder)
                record.write_text(json.dumps(asdict(done)))
        played = Played(**json.loads(record.read_text()))
        assert played.status == 0, played.stderr
        return played

    return play


@pytest.fixture(scope="session")
def processes(stage: Path, perform: Perform) -> Run:
    """Runs what torchrun would run in several processes that find each other, as torchrun's do."""

    def run(n: int, *words: object) -> Played:
        with _one_at_a_time(stage):
            return perform("run", n, *words)

    return run


@pytest.fixture(scope="session")
def torchrun(stage: Path, perform: Perform) -> Run:
    """Runs torchrun itself, whose processes find everything loaded."""

    def run(*words: object) -> Played:
        with _one_at_a_time(stage):
            return perform("torchrun", *words)

    return run


@contextmanager
def _one_at_a_time(stage: Path, kind: str = "busy") -> Iterator[None]:
    """Two busy scenes at once would have more processes than a small machine has cores."""
    with (stage / f"{kind}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
