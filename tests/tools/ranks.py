"""Processes that work together in a scene, and where they meet."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist
from forking import forked, free_port, status_of

from densirank.world import TIMEOUT_VARIABLE

PATIENCE = float(os.environ.get("DENSIRANK_TEST_PATIENCE", "120"))
"""Seconds that a process may take."""


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
