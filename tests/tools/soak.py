"""Run the whole suite many times to find tests that fail only sometimes.

Half of the runs have the machine to themselves. The other half share it with one busy process per
core, because a test that waits for something may pass only where that comes quickly. Every run has
a random order of its own, because a test may need what another one has left behind, and property
tests try examples of their own. Both come from a seed, which is printed; this repeats them::

    python -m pytest -n auto --dist worksteal --random-order --random-order-seed SEED \\
        --hypothesis-profile explore --hypothesis-seed SEED

``make soak N=5`` does N runs of each kind. Each run writes its result when it ends, so a soak that
was stopped can go on with ``--resume``, and ``--resume --runs 0`` only prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from xml.etree import ElementTree

LOADS = ("quiet", "busy")
SLOWEST = 15
"""Passing tests in the table."""
TIME_LIMIT = 1800
"""Seconds a run may take; a run that hangs is a failure too."""
STUCK = 300
"""Seconds a test may take before the log shows what its threads are doing."""
LEAVING = 30
"""Seconds an interrupted run has to end what its tests have started."""
SPIN = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0))).start()
while True:
    pass
"""
"""A busy process. It ends when its standard input does, hence also when the soak is killed."""


@dataclass(frozen=True)
class Tally:
    """How often a test has run and failed, and the seconds it took at most."""

    runs: int = 1
    failures: int = 0
    skips: int = 0
    slowest: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.runs + other.runs,
            self.failures + other.failures,
            self.skips + other.skips,
            max(self.slowest, other.slowest),
        )


@dataclass(frozen=True)
class Run:
    """One run of the suite; ``status`` is how pytest ended, None if it was stopped."""

    load: str
    seed: int
    status: int | None
    seconds: float
    tests: dict[str, Tally]

    @property
    def failed(self) -> int:
        return sum(test.failures for test in self.tests.values())

    @property
    def skipped(self) -> int:
        return sum(test.skips for test in self.tests.values())

    @property
    def passed(self) -> int:
        return len(self.tests) - self.failed - self.skipped

    @property
    def trouble(self) -> str:
        """What is wrong with the run as a whole, beyond the tests that failed."""
        if self.status is None:
            return f"took more than {TIME_LIMIT} s"
        if self.status == 0 and self.tests:
            return ""
        return "" if self.status == 1 and self.failed else f"ended with status {self.status}"

    def save(self, folder: Path) -> None:
        whole = folder / f"{self.load}-{self.seed}.json"
        partial = whole.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(whole)

    @classmethod
    def read(cls, path: Path) -> Run:
        content = json.loads(path.read_text())
        tests = {name: Tally(**test) for name, test in content.pop("tests").items()}
        return cls(**content, tests=tests)


def read_report(path: Path) -> dict[str, Tally]:
    """The tests of a JUnit file, nothing if there is none: pytest writes it last."""
    tests: dict[str, Tally] = {}
    if not path.exists():
        return tests
    for case in ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('file') or case.get('classname')}::{case.get('name')}"
        failed = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None and not failed
        test = Tally(1, int(failed), int(skipped), float(case.get("time", 0)))
        if name in tests:  # a test and its teardown can fail apart: still one test
            both = tests[name] + test
            test = replace(both, runs=1, failures=min(both.failures, 1))
        tests[name] = test
    return tests


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep so many cores busy."""
    spinning: list[subprocess.Popen[bytes]] = []
    try:
        while len(spinning) < count:
            spinning.append(subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE))
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def run_suite(load: str, seed: int, folder: Path, words: Sequence[str]) -> Run:
    """Run the suite once, as ``make test`` does; its output is in the folder."""
    report, log = (folder / f"{load}-{seed}.{kind}" for kind in ("xml", "log"))
    command = [sys.executable, "-m", "pytest", "-n", "auto", "--dist", "worksteal"]
    command += ["--random-order", "--random-order-seed", str(seed)]
    command += ["--hypothesis-profile", "explore", "--hypothesis-seed", str(seed)]
    command += ["--junit-xml", str(report), "-o", "junit_family=xunit1"]
    command += ["-o", f"faulthandler_timeout={STUCK}", *words]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    started = time.monotonic()
    with busy_processes((cores or 1) if load == "busy" else 0), log.open("w") as output:
        suite = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        status: int | None = None
        try:
            status = suite.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _end(suite)
    return Run(load, seed, status, time.monotonic() - started, read_report(report))


def _end(suite: subprocess.Popen[bytes]) -> None:
    """Interrupt a suite that still runs, so that it ends what it started; then make sure."""
    if suite.poll() is None:
        os.killpg(suite.pid, signal.SIGINT)
        try:
            suite.wait(LEAVING)
        except subprocess.TimeoutExpired:
            pass
        finally:  # also when somebody presses Ctrl-C again
            if suite.poll() is None:
                os.killpg(suite.pid, signal.SIGKILL)
                suite.wait()


def table(runs: Sequence[Run]) -> str:
    """Tests that failed and the slowest others, then a line for each run."""
    tests: dict[str, Tally] = {}
    for run in runs:
        for name, test in run.tests.items():
            tests[name] = tests[name] + test if name in tests else test
    order = sorted(tests, key=lambda name: (-tests[name].failures, -tests[name].slowest, name))
    failing = [name for name in order if tests[name].failures]
    shown = order[: len(failing) + SLOWEST]
    lines = [f"{'runs':>5} {'failures':>8} {'slowest s':>9}  test"]
    for name in shown:
        test = tests[name]
        lines.append(f"{test.runs:>5} {test.failures:>8} {test.slowest:>9.1f}  {name}")
    lines += ["", f"{'load':<5} {'seed':>6} {'passed':>6} {'failed':>6} {'skipped':>7} {'s':>5}"]
    lines += [_line(run) for run in runs]
    return "\n".join(lines)


def _line(run: Run) -> str:
    counts = f"{run.passed:>6} {run.failed:>6} {run.skipped:>7} {run.seconds:>5.0f}"
    return f"{run.load:<5} {run.seed:>6} {counts} {run.trouble}".rstrip()


def _finished(folder: Path) -> list[Run]:
    paths = [path for load in LOADS for path in folder.glob(f"{load}-*.json")]
    return [Run.read(path) for path in sorted(paths, key=lambda path: path.stat().st_mtime)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind")
    parser.add_argument("--out", type=Path, default=Path("build/soak"), help="folder for results")
    parser.add_argument("--resume", action="store_true", help="go on with the runs of the folder")
    parser.add_argument("words", nargs="*", help="more arguments of pytest, after --")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where `&` has started it
    for stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda number, _: sys.exit(128 + number))

    asked.out.mkdir(parents=True, exist_ok=True)
    runs = _finished(asked.out)
    if runs and not asked.resume:
        parser.error(f"{asked.out} holds {len(runs)} runs: pass --resume, or another --out")
    stopped = False
    try:
        for number in range(asked.runs):
            for load in LOADS:
                if sum(run.load == load for run in runs) > number:
                    continue
                seed = random.randrange(1_000_000)
                print(f"{load}, seed {seed}: {asked.out / f'{load}-{seed}.log'}", flush=True)
                run = run_suite(load, seed, asked.out, asked.words)
                run.save(asked.out)
                runs.append(run)
                print(_line(run), flush=True)
    except KeyboardInterrupt:
        stopped = True
    print(f"\n{table(runs)}")
    if stopped:
        return 128 + signal.SIGINT
    return int(not runs or any(run.failed or run.trouble for run in runs))


if __name__ == "__main__":
    sys.exit(main())
