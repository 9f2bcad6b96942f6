"""A fit by two hosts, and what happens to their cable or to them meanwhile.

    PYTHONPATH=tests/tools python tests/tools/two_hosts.py --times 10

plays every case so often and prints a table: how long after the event each host's torchrun ended,
with which status, and what it said.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cable import HOSTS, Cable
from forking import forked, status_of

from densirank.data.synthetic import planted

METHOD = "wd-mf"
SETTINGS: dict[str, Any] = {"dim": 8, "users_per_batch": 60}
LONG = 600
"""Iterations, where something happens before the end."""
LIMIT = 10
"""DENSIRANK_TIMEOUT."""
PATIENCE = 100.0
"""Seconds from the event, or else from the start, to the end of both hosts."""


@dataclass(frozen=True)
class Case:
    """What happens when there is a first checkpoint."""

    name: str
    happens: Callable[[Cable], object] | None = None
    iterations: int = LONG
    late: float = 0.0  # seconds after which the far host is started
    delay: float = 0.0
    loss: float = 0.0


def _cut_for_a_while(cable: Cable) -> None:
    cable.cut()
    time.sleep(LIMIT / 4)
    cable.mend()


CASES = [
    Case("undisturbed", iterations=40),
    Case("late host", iterations=40, late=5.0),
    Case("slow and lossy", iterations=8, delay=0.05, loss=0.02),
    Case("cut and mended", _cut_for_a_while, iterations=400),
    Case("cut", Cable.cut),
    Case("far host killed", lambda cable: cable.kill("far")),
    Case("near host killed", lambda cable: cable.kill("near")),
]


@dataclass
class Ended:
    """How a host's torchrun ended."""

    seconds: float | None = None  # after the event; None if it did not
    status: int | None = None
    sentences: list[str] = field(default_factory=list)
    left: int = 0  # processes


def log_file(folder: Path) -> Path:
    """The interactions that are fitted."""
    data = planted(200, 100, items_per_user=8, test_items_per_user=1, seed=3).train
    rows = [f"{user} {' '.join(map(str, data.items_of(user)))}" for user in range(data.n_users)]
    path = folder / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


def fit_words(folder: Path, iterations: int) -> list[str]:
    """``densirank fit`` of that log, with five checkpoints a second."""
    words = ["-m", "densirank", "fit", str(folder / "train.txt"), "--out", str(folder / "model")]
    words += ["--method", METHOD, "--device", "cpu", "--checkpoint-every", "0.2"]
    for key, value in (SETTINGS | {"iterations": iterations}).items():
        words += ["--set", f"{key}={value}"]
    return words


def play(case: Case, folder: Path, torchrun: Callable[[list[str]], object]) -> dict[str, Ended]:
    """Fit on two hosts; how they end."""
    folder.mkdir(parents=True)
    log_file(folder)
    ended = {host: Ended() for host in HOSTS}
    with Cable(case.delay, case.loss) as cable:
        running = {}
        for host in HOSTS:
            if host == "far":
                time.sleep(case.late)
            running[host] = forked({}, partial(_be, host, cable, case, folder, torchrun))
        if case.happens is not None:
            _await_checkpoint(folder)
            case.happens(cable)
        began = time.monotonic()
        while running and time.monotonic() < began + PATIENCE:
            for host, process in list(running.items()):
                status = status_of_now(process)
                if status is not None:
                    ended[host].seconds = round(time.monotonic() - began, 1)
                    ended[host].status = status
                    del running[host]
            time.sleep(0.05)
        time.sleep(0.2)
        for host in HOSTS:
            ended[host].left = len(cable.processes(host))
            said = (folder / f"{host}.txt").read_text().splitlines()
            ended[host].sentences = [line for line in said if line.startswith("error:")]
    for process in running.values():
        status_of(process, 0.0)
    return ended


def status_of_now(process: int) -> int | None:
    """The exit status of a process that has ended."""
    ended, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _be(
    host: str, cable: Cable, case: Case, folder: Path, torchrun: Callable[[list[str]], object]
) -> None:
    cable.move_to(host)
    out = os.open(folder / f"{host}.txt", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.environ |= {"DENSIRANK_TIMEOUT": str(LIMIT), "OMP_NUM_THREADS": "1"}
    words = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=two-hosts"]
    words += [f"--rdzv-endpoint={HOSTS['near']}:29500", f"--local-addr={HOSTS[host]}"]
    words += [f"--rdzv-conf=is_host={int(host == 'near')}"]
    torchrun(words + fit_words(folder, case.iterations))


def _await_checkpoint(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not any((folder / "model" / "checkpoint").glob("[0-9]*")):
        assert time.monotonic() < deadline, "there is no checkpoint"
        time.sleep(0.05)


def play_all(folder: Path, torchrun: Callable[[list[str]], object]) -> None:
    """Every case, all at once, for they mostly wait."""

    def alone(case: Case) -> None:
        ended = play(case, folder / case.name, torchrun)
        outcome = {host: asdict(one) for host, one in ended.items()}
        (folder / f"{case.name}.json").write_text(json.dumps(outcome))

    players = [forked({}, partial(alone, case)) for case in CASES]
    deadline = time.monotonic() + 2 * PATIENCE
    assert [status_of(player, deadline) for player in players] == [0 for _ in CASES]


def _start_torchrun(words: list[str]) -> None:
    os.execv(sys.executable, [sys.executable, "-m", "torch.distributed.run", *words])


def main() -> None:
    """Play every case some times with processes that load everything anew; print a table."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write what was seen here, as it comes")
    given = parser.parse_args()
    table = Table("case", "host", "seconds to the end", "statuses", "left", "sentences")
    for case in CASES:
        seen: dict[str, list[Ended]] = {host: [] for host in HOSTS}
        for _ in range(given.times):
            with TemporaryDirectory() as folder:
                ended = play(case, Path(folder, "run"), _start_torchrun)
            for host, one in ended.items():
                seen[host].append(one)
            if given.json is not None:
                line = {"case": case.name} | {host: asdict(one) for host, one in ended.items()}
                with given.json.open("a") as lines:
                    lines.write(json.dumps(line) + "\n")
        for host, all_of_them in seen.items():
            table.add_row(case.name, host, *_summary(all_of_them))
    Console(width=160, markup=False).print(table)


def _summary(seen: list[Ended]) -> Iterator[str]:
    seconds = [one.seconds for one in seen if one.seconds is not None]
    hung = len(seen) - len(seconds)
    yield f"{min(seconds)} to {max(seconds)}" + (f", {hung} hung" if hung else "")
    for values in (
        [str(one.status) for one in seen],
        [str(one.left) for one in seen],
        [" / ".join(one.sentences) or "–" for one in seen],
    ):
        yield "\n".join(f"{values.count(value)} × {value}" for value in sorted(set(values)))


if __name__ == "__main__":
    main()
