"""Processes that are forked for a scene, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist

from densirank.distributed.group import TIMEOUT_VARIABLE

PATIENCE = float(os.environ.get("DENSIRANK_TEST_PATIENCE", "120"))
"""Seconds that a process may take."""
STOPPING = 40
"""Seconds that torchrun may take to stop its processes, if need be with -9."""


def apart(n: int, act: Callable[[int], None], port: int | None = None) -> list[int]:
    """Fork ``n`` processes, each of which acts by its rank; their exit statuses.

    They can meet at the port of a store, if there is one already, and otherwise the first one has
    to bring it.
    """
    torch.set_num_threads(1)
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port or free_port())}
    where |= {"WORLD_SIZE": str(n), "TORCHELASTIC_USE_AGENT_STORE": str(port is not None)}
    where |= {TIMEOUT_VARIABLE: str(PATIENCE)}
    children = [
        forked(where | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, partial(act, rank))
        for rank in range(n)
    ]
    deadline = time.monotonic() + PATIENCE
    statuses = [status_of(child, deadline) for child in children]
    if None in statuses:
        raise TimeoutError(f"some of {n} processes hung; they ended with {statuses}")
    return [status for status in statuses if status is not None]


@contextmanager
def lasting_store() -> Iterator[int]:
    """The port of a store like torchrun's, which lasts when the processes that use it end."""
    reader, writer = os.pipe()

    def host() -> None:
        store = dist.TCPStore(  # type: ignore[attr-defined]
            "127.0.0.1", 0, is_master=True, wait_for_workers=False
        )
        os.write(writer, str(store.port).encode())
        time.sleep(PATIENCE)

    child = forked({}, host)
    try:
        yield int(os.read(reader, 8))
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def forked(environment: dict[str, str], act: Callable[[], None]) -> int:
    """A process that acts, and ends with the status that an interpreter would; its number."""
    child = os.fork()
    if child:
        return child
    os.environ |= environment
    status = 1
    try:
        act()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def status_of(child: int, deadline: float, warning: signal.Signals | None = None) -> int | None:
    """How a process ended; one that outlives the deadline is killed, after a warning if any."""
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    if warning is not None:
        os.kill(child, warning)
        status_of(child, time.monotonic() + STOPPING)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return None
