"""Load test of the service: requests per second, p50 and p99, errors, and memory over time.

    python benchmarks/load.py MODEL --seconds 300                    # as fast as it answers
    python benchmarks/load.py MODEL --seconds 300 --rate 500         # at a fixed rate per second
    python benchmarks/load.py MODEL --seconds 60 --rate 300 --reload 10   # a new model every 10 s

Without MODEL, a model of the size of Gowalla is created. The server runs on the loopback interface,
on the same cores as this client, with a copy of the model, and is stopped at the end. Every request
asks for the top k items of a random user. At a fixed rate, latency is measured from the scheduled
time of a request, so a stall affects all requests that fall into it. ``--reload`` repeatedly
replaces the copy by another model, and checks that the last one is served at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, cast

import numpy as np
import uvloop
from rich.console import Console
from rich.table import Table

from densirank import Ranker, load
from densirank.serving.engine import Engine
from measuring import environment, in_own_process
from powerlaw import Size, interactions

GOWALLA = Size(29_858, 40_981, 810_128)
DIM = 64
WARM_UP = 2.0
"""Seconds of load that are not measured."""
STARTING = 120.0
"""Seconds a server may take to load its model."""
LONGEST = 20.0
"""Seconds until a request counts as lost."""


@dataclass(frozen=True)
class Case:
    """The requests to send, and the load."""

    seconds: float
    rate: float  # requests a second; 0: as fast as they are answered
    connections: int
    k: int
    workers: int
    reload_seconds: float  # between two new models; 0: none
    log_requests: bool


@dataclass
class Seen:
    """What the client has seen so far."""

    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    rss_mib: list[tuple[float, float]] = field(default_factory=list)
    saved: int = 0


class Connection(asyncio.Protocol):
    """One kept-alive HTTP/1.1 connection that has one request under way at most."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """An answer that is waited for will not come."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("closed by the server"))

    def data_received(self, data: bytes) -> None:
        """Hand over an answer once all of it is here."""
        self._received += data
        end = self._received.find(b"\r\n\r\n")
        if end < 0 or self._answer is None or self._answer.done():
            return
        head = bytes(self._received[:end]).lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self._received) >= end + 4 + length:
            self._answer.set_result((int(head[9:12]), bytes(self._received[end + 4 :])))
            self._received.clear()

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """(status, body) of the answer to a whole request."""
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(LONGEST):
            return await self._answer

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()


class Load:
    """Connections that ask until the time is over."""

    def __init__(self, case: Case, port: int, users: list[int | str], saver: Executor) -> None:
        self._case, self._port, self._saver = case, port, saver
        self._requests = [_request(user, case.k) for user in users]
        self._chance = np.random.default_rng(0)
        self._started = self._end = 0.0
        self._sent = 0
        self.seen = Seen()

    async def run(self, server: int, folder: Path) -> None:
        """Warm up, then ask and watch until the time is over."""
        self._started = time.perf_counter() + WARM_UP
        self._end = self._started + self._case.seconds
        watching = asyncio.create_task(self._watch(server))
        replacing = asyncio.create_task(self._replace(folder))
        await asyncio.gather(*(self._ask() for _ in range(self._case.connections)))
        watching.cancel()
        await replacing

    async def _ask(self) -> None:
        connection = await self._connected()
        while (due := await self._turn()) < self._end:
            request = self._requests[self._chance.integers(len(self._requests))]
            try:
                status, body = await connection.ask(request)
            except (OSError, TimeoutError) as error:
                self.seen.errors[type(error).__name__] += 1
                connection.close()
                connection = await self._connected()
                continue
            if status != 200:
                self.seen.errors[str(status)] += 1
            elif due >= self._started:
                self.seen.latencies.append(time.perf_counter() - due)
                self.seen.models[body[10:26].decode()] += 1
        connection.close()

    async def _turn(self) -> float:
        """When the next request of this connection is due, waited for."""
        if not self._case.rate:
            return time.perf_counter()
        due = self._started - WARM_UP + self._sent / self._case.rate
        self._sent += 1
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        return due

    async def _connected(self) -> Connection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(Connection, "127.0.0.1", self._port)
        return connection

    async def _watch(self, server: int) -> None:
        while True:
            at = time.perf_counter() - self._started
            self.seen.rss_mib.append((round(at, 1), _tree_rss_mib(server)))
            await asyncio.sleep(1)

    async def _replace(self, folder: Path) -> None:
        """Put one new model after another into the folder, each of them another one."""
        pause = self._case.reload_seconds
        while pause and time.perf_counter() + pause < self._end:
            await asyncio.sleep(pause)
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._saver, save_again, folder)
            self.seen.saved += 1


def save_again(folder: Path) -> None:
    """Replace a folder's model by one with slightly other vectors."""
    ranker = load(folder, "cpu")
    ranker.scorer_.user_vectors.mul_(1.0001)
    ranker.save(folder)


def make_model(folder: Path) -> None:
    """A model of Gowalla's size; what it has learnt does not matter here."""
    data = interactions(GOWALLA)
    Ranker("wd-mf", dim=DIM, iterations=1, device="cpu").fit(data).save(folder)


def measure(case: Case, folder: Path) -> dict[str, Any]:
    """Start a server, drive it, stop it."""
    users = load(folder, "cpu").interactions_.user_ids.ids.tolist()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "densirank", "serve", str(folder), "--port", str(port)]
    command += ["--workers", str(case.workers), "--watch", "0.5"]
    command += [] if case.log_requests else ["--no-log-requests"]
    with (
        tempfile.TemporaryFile() as log,
        ProcessPoolExecutor(1, get_context("spawn")) as saver,
    ):
        saver.submit(save_again, folder).result()  # so that the next one takes no time to start
        server = subprocess.Popen(command, stderr=log)
        try:
            _wait_until_ready(server, port)
            drive = Load(case, port, users, saver)
            before = _tree_cpu_seconds(server.pid)
            uvloop.run(drive.run(server.pid, folder))
            used = _tree_cpu_seconds(server.pid) - before
            served = _served(port)
            server.send_signal(signal.SIGTERM)
            status = server.wait(30)
        finally:
            server.kill()
            server.wait()
    return figures(case, drive.seen) | {
        "server_cores_used": used / (case.seconds + WARM_UP),
        "last_model_is_served": served == Engine.load(folder, None).fingerprint,
        "stopped_by_itself": status in (0, -signal.SIGTERM),
    }


def figures(case: Case, seen: Seen) -> dict[str, Any]:
    """What there is to say of a run."""
    latencies = np.array(seen.latencies) * 1000
    memory = [mib for at, mib in seen.rss_mib if at >= 0]
    tenth = max(1, len(memory) // 10)
    return {
        "requests": len(latencies),
        "requests_per_second": len(latencies) / case.seconds,
        "p50_ms": float(np.percentile(latencies, 50)),
        "p99_ms": float(np.percentile(latencies, 99)),
        "max_ms": float(latencies.max()),
        "errors": dict(seen.errors),
        "rss_mib_early": median(memory[tenth : 2 * tenth] or memory),
        "rss_mib_late": median(memory[-tenth:]),
        "rss_mib": seen.rss_mib[:: max(1, len(seen.rss_mib) // 60)],
        "models_seen": len(seen.models),
        "models_saved": seen.saved,
    }


def _request(user: int | str, k: int) -> bytes:
    body = json.dumps({"users": [user], "k": k}).encode()
    return (
        b"POST /v1/recommend HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


def _wait_until_ready(server: subprocess.Popen[bytes], port: int) -> None:
    patience = time.perf_counter() + STARTING
    while time.perf_counter() < patience and server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz"):
            return
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def _served(port: int) -> str:
    time.sleep(2)  # every worker polls the folder twice a second
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
        return str(json.load(answer)["model"])


def _tree_rss_mib(pid: int) -> float:
    """The resident memory of a process and its children (Linux)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return 0.0
    found = re.search(r"VmRSS:\s+(\d+)", status)
    own = int(found.group(1)) / 1024 if found else 0.0
    return round(own + sum(_tree_rss_mib(int(child)) for child in children), 1)


def _tree_cpu_seconds(pid: int) -> float:
    """The processor time of a process and its living children (Linux)."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    own = (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_tree_cpu_seconds(int(child)) for child in children)


def main() -> None:
    """Measure one case and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, nargs="?", help="a model folder")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--rate", type=float, default=0, help="requests a second; 0: the most")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("-k", type=int, default=20)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--reload", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--log-requests", action="store_true")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    case = Case(
        given.seconds,
        given.rate,
        given.connections,
        given.k,
        given.workers,
        given.reload,
        given.log_requests,
    )
    with tempfile.TemporaryDirectory(prefix="densirank-load-") as temporary:
        folder = Path(temporary) / "model"
        if given.model is None:
            in_own_process(make_model, folder)
        else:
            shutil.copytree(given.model, folder)
        found = measure(case, folder)
    table = Table("what", "value", title="The service under load")
    for name, value in found.items():
        if name != "rss_mib":
            table.add_row(name, f"{value:,.1f}" if isinstance(value, float) else str(value))
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "case": asdict(case),
            "figures": found,
            "environment": environment("cpu"),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
