"""Two hosts on one machine: network namespaces, and between them a cable that can fail.

The cable is a process that carries packets between two TUN devices, so that it can be cut as real
ones are: neither host is told, packets just do not arrive. It can also be slow, and lose some.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import Self

from forking import forked

TUN = Path("/dev/net/tun")
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
MTU = 60_000
"""Few packets, for they are carried one by one."""

HOSTS = {"near": "10.203.0.1", "far": "10.203.0.2"}
KNOWN = {
    "hosts": "127.0.0.1 localhost\n" + "".join(f"{HOSTS[name]} {name}\n" for name in HOSTS),
    "nsswitch.conf": "hosts: files\n",  # no name server can be reached
}
numbers = count(1)


def why_not() -> str | None:
    """Why this machine cannot have two hosts; None if it can."""
    if shutil.which("ip") is None:
        return "needs ip (iproute2)"
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    if not TUN.exists():
        return f"needs {TUN}"
    name = f"densirank-try-{os.getpid()}"
    made = _ip("netns", "add", name)
    if made.returncode != 0:
        return f"cannot make network namespaces ({made.stderr.strip()})"
    _must("netns", "del", name)
    return None


class Cable:
    """Hosts ``near`` and ``far``, and the cable between them, while inside ``with``."""

    def __init__(self, delay: float = 0.0, loss: float = 0.0) -> None:
        """``delay`` in seconds, each way; ``loss`` is the share of packets that do not arrive."""
        self._delay, self._loss = delay, loss
        self._tag = f"{os.getpid()}-{next(numbers)}"
        self._etc = Path(mkdtemp())
        self._control, self._controlled = socket.socketpair()

    def __enter__(self) -> Self:
        for name, text in KNOWN.items():
            (self._etc / name).write_text(text)
        ends = []
        for host, address in HOSTS.items():
            namespace, device = self._namespace(host), f"{host}{self._tag}"
            _must("netns", "add", namespace)
            ends.append(_tun(device))
            _must("link", "set", device, "netns", namespace)
            _must("-n", namespace, "link", "set", "lo", "up")
            _must("-n", namespace, "addr", "add", f"{address}/24", "dev", device)
            _must("-n", namespace, "link", "set", device, "mtu", str(MTU), "up")
        self._carrier = forked({}, lambda: self._carry(ends))
        for end in ends:
            os.close(end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.kill(self._carrier, signal.SIGKILL)
        os.waitpid(self._carrier, 0)
        for host in HOSTS:
            self.kill(host)
            _must("netns", "del", self._namespace(host))
        shutil.rmtree(self._etc)

    def cut(self) -> None:
        """From now on nothing arrives, and neither host is told."""
        self._control.send(b"c")

    def mend(self) -> None:
        """What is sent from now on arrives."""
        self._control.send(b"m")

    def kill(self, host: str) -> None:
        """Kill every process of a host at once."""
        for process in self.processes(host):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def processes(self, host: str) -> list[int]:
        """What runs on a host."""
        return list(map(int, _must("netns", "pids", self._namespace(host)).split()))

    def move_to(self, host: str) -> None:
        """Have this process, and what it starts, run on a host."""
        libc = ctypes.CDLL(None, use_errno=True)

        def call(name: str, *words: object) -> None:
            if getattr(libc, name)(*words) != 0:
                raise OSError(ctypes.get_errno(), f"{name}{words}")

        with open(f"/run/netns/{self._namespace(host)}") as namespace:
            call("setns", namespace.fileno(), CLONE_NEWNET)
        call("unshare", CLONE_NEWNS)
        call("mount", b"none", b"/", None, MS_REC | MS_SLAVE, None)
        for name in KNOWN:
            known = os.fsencode(self._etc / name)
            call("mount", known, os.fsencode(f"/etc/{name}"), None, MS_BIND, None)

    def _namespace(self, host: str) -> str:
        return f"densirank-{host}-{self._tag}"

    def _carry(self, ends: list[int]) -> None:
        chance = random.Random(0)
        under_way: list[tuple[float, int, int, bytes]] = []
        sent = count()
        cut = False
        while True:
            wait = max(under_way[0][0] - time.monotonic(), 0) if under_way else None
            ready, _, _ = select.select([*ends, self._controlled.fileno()], [], [], wait)
            if self._controlled.fileno() in ready:
                cut = self._controlled.recv(1) == b"c"
                continue
            now = time.monotonic()
            for end in ready:
                packet = os.read(end, MTU + 100)
                other = ends[1 - ends.index(end)]
                if not cut and chance.random() >= self._loss:
                    heapq.heappush(under_way, (now + self._delay, next(sent), other, packet))
            while under_way and under_way[0][0] <= now:
                _, _, end, packet = heapq.heappop(under_way)
                os.write(end, packet)


def _tun(name: str) -> int:
    """A new TUN device: what is written to it arrives at its host."""
    device = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def _must(*words: str) -> str:
    done = _ip(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _ip(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
