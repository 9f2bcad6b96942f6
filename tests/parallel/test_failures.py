"""One process fails: the first one says why, in a sentence, and all end."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank.errors import InputError, StorageError, TrainingError
from densirank.parallel.agent import agent_of_this_process
from densirank.parallel.failures import (
    LAST_WORD,
    LOOK_EVERY,
    Alarm,
    sentence_of,
    status_of,
)
from densirank.parallel.store import RunStore

Play = Callable[[str], Any]

SAID = {
    "mismatch": "process 1 differs from process 0 in its data: ",
    "memory": "process 2: out of memory (tried to allocate 20 GiB); use more processes",
    "bug": "process 1: KeyError: 'a defect'",
    "lost": "another process of the run has ended, or the connection to it broke",
    "not finite": "error: the loss is no longer finite",
    "device": "error: there is no device 'abacus'",
    "method": "error: bpr-mf cannot be trained by several processes; those that can are wd-lgcn",
    "interrupted": "process 1: interrupted; what was trained until the last checkpoint is kept",
    "stopped": "process 1: stopped by SIGTERM",
    "silent store": "error: stopped by SIGTERM",
}
STATUS = {"mismatch": 2, "method": 2, "device": 2, "interrupted": 130}
STATUS |= {"stopped": 143, "silent store": 143}


@pytest.fixture(scope="module")
def played(scene: Play) -> tuple[dict[str, list[int]], dict[str, str]]:
    """(with which statuses each failure ended, what was written to stderr meanwhile)"""
    failures = scene("failures")
    ended = json.loads(Path(failures.folder, "ended.json").read_text())
    _, *parts = re.split(r"(?m)^=== (.+)\n", failures.stderr)
    return ended, dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("failure", SAID)
def test_the_first_process_says_what_happened_once(failure: str, played: Any) -> None:
    _, written = played
    complaints = [line for line in written[failure].splitlines() if line.startswith("error:")]
    assert len(complaints) == 1, written[failure]
    assert SAID[failure] in complaints[0]
    assert ("Traceback" in written[failure]) == (failure == "bug")


def test_all_end_with_the_status_of_the_failure_where_nothing_can_be_printed(played: Any) -> None:
    ended, _ = played
    assert ended["nowhere to print"] == [1, 1]


@pytest.mark.parametrize("failure", SAID)
def test_every_process_ends_with_the_status_of_the_failure(failure: str, played: Any) -> None:
    ended, _ = played
    if failure == "lost":
        assert ended[failure] == [1, -9]
    else:
        assert set(ended[failure]) == {STATUS.get(failure, 1)}


@pytest.mark.parametrize(
    ("error", "sentence", "status"),
    [
        (InputError("no such item"), "no such item", 2),
        (StorageError("damaged"), "damaged", 2),
        (TrainingError("not finite"), "not finite", 1),
        (FileNotFoundError(2, "No such file", "train.txt"), "train.txt: No such file", 2),
        (MemoryError(), "out of memory; use more processes", 1),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory (", 1),
        (KeyError("x"), "KeyError: 'x'", 1),
        (KeyboardInterrupt(), "interrupted", 130),
        (SystemExit(3), "SystemExit: 3", 3),
    ],
)
def test_what_is_said_of_an_error(error: BaseException, sentence: str, status: int) -> None:
    assert sentence_of(error).startswith(sentence)
    assert status_of(error) == status


class Quiet:
    """A store of one process."""

    def add(self, key: str, amount: int) -> int:
        return amount

    def check(self, keys: list[str]) -> bool:
        return False


def test_a_signal_that_comes_too_late_to_end_the_run_ends_the_process_as_before() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with Alarm(0, RunStore(Quiet(), limit=1.0)):
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
        with Alarm(0, RunStore(Quiet(), limit=1.0)):
            pass
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_end_of_a_run_does_not_wait_for_a_silent_store() -> None:
    class Silent(Quiet):
        def check(self, keys: list[str]) -> bool:
            return threading.Event().wait()

    limit, started = LAST_WORD + 2, time.monotonic()
    with Alarm(0, RunStore(Silent(), limit)) as alarm:
        time.sleep(2 * LOOK_EVERY)
    assert time.monotonic() - started < LAST_WORD + 1
    alarm._listener.join(limit)  # what it raises when its answer is overdue fails this test
    assert not alarm._listener.is_alive()


def test_only_torchrun_is_taken_for_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RESTART_COUNT", "MAX_RESTARTS"):
        monkeypatch.setenv(f"TORCHELASTIC_{name}", "0")
    assert agent_of_this_process() is None
