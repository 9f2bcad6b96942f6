"""Several processes at little cost: one that has everything loaded, forked as often as needed.

A script of its own, for a test run has threads by then, which a fork would lose.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable

import torch

from densirank.distributed.group import World, joined

Work = Callable[[World], None]
PATIENCE = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def together(n: int, work: Work) -> list[int]:
    """Do the work in ``n`` processes; their exit statuses. None lives longer than a minute."""
    torch.set_num_threads(1)
    port = free_port()
    children = [_forked(rank, n, port, work) for rank in range(n)]
    deadline = time.monotonic() + PATIENCE
    return [_status_of(child, deadline) for child in children]


def _forked(rank: int, n: int, port: int, work: Work) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(n), "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    status = 1
    try:
        with joined("cpu") as world:
            work(world)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _status_of(child: int, deadline: float) -> int:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"process {child} hangs")
