"""Processes of a run end, and nothing of theirs is left that could keep them from it.

A thread of gloo that outlives its process group may abort the process while the interpreter goes
down, or keep it for ever. So these are processes that load everything themselves, in the order in
which users' processes do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from two_hosts import fit_words, log_file

SCRIPT = Path(__file__).with_name("threads_left.py")
BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "distributed_scaling.py"
SECONDS = 150
PROCESSES = 2

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at the kernel's threads")


def _start(folder: Path, *words: object) -> subprocess.Popen[str]:
    """Two processes that do what the words say, and tell in the folder which threads are left."""
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--local-addr=127.0.0.1", f"--nproc-per-node={PROCESSES}", str(SCRIPT), str(folder)]
    return subprocess.Popen(
        [*command, *map(str, words)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(started: subprocess.Popen[str]) -> tuple[int, str]:
    """(exit status of torchrun, what was written to stderr)"""
    try:
        _, written = started.communicate(timeout=SECONDS)
    finally:
        started.kill()
    return started.returncode, written


def _assert_no_thread_of_gloo(folder: Path) -> None:
    left = [json.loads(path.read_text()) for path in folder.iterdir()]
    assert len(left) == PROCESSES
    assert not [name for names in left for name in names if "gloo" in name]


def test_no_thread_is_left_after_a_fit_a_resumed_one_and_an_evaluation(tmp_path: Path) -> None:
    """The first fit is interrupted, as Ctrl-C does, and ends with the status that says so."""
    log, model = log_file(tmp_path), tmp_path / "model"
    words = fit_words(tmp_path, iterations=1_000)
    fit = _start(tmp_path / "fit", *words)
    while not any((model / "checkpoint").glob("[0-9]*")):
        assert fit.poll() is None, _ended(fit)
        time.sleep(0.05)
    fit.send_signal(signal.SIGINT)
    status, written = _ended(fit)
    assert status != 0
    assert written.count("with --resume goes on") == 1, written
    _assert_no_thread_of_gloo(tmp_path / "fit")

    for name, command in (
        ("resumed", [*words, "--resume"]),
        ("evaluation", ["-m", "densirank", "evaluate", model, log, "--device", "cpu"]),
    ):
        status, written = _ended(_start(tmp_path / name, *command))
        assert status == 0, written
        _assert_no_thread_of_gloo(tmp_path / name)


def test_no_thread_is_left_after_the_benchmark(tmp_path: Path) -> None:
    (tmp_path / "seen").mkdir()
    task = {"method": "wd-lgcn", "candidates": 50, "batch_users": 20, "steps": 2}
    size = {"users": 100, "items": 80, "interactions": 900}
    words = [BENCHMARK, "--folder", tmp_path / "seen", "--task", json.dumps(task | {"size": size})]
    status, written = _ended(_start(tmp_path / "left", *words))
    assert status == 0, written
    _assert_no_thread_of_gloo(tmp_path / "left")


@pytest.fixture(scope="module")
def played(scene: Callable[[str], Any]) -> Any:
    return scene("failures")
