"""Processes that are forked, and how they end."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable

STOPPING = 40
"""Seconds that a process may take to stop its own ones, if need be with -9."""


def free_port() -> int:
    """A port that nobody listens at and that the system gives to nobody else for a minute.

    A connection that this end closed first stays in TIME_WAIT. Its port is then neither chosen for
    port 0 nor for an outgoing connection, but servers can bind it: they set SO_REUSEADDR.
    """
    with socket.socket() as listening, socket.socket() as client:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        client.connect(listening.getsockname())
        accepted, _ = listening.accept()
        accepted.close()
        client.recv(1)  # the end of the connection: this side is the second to close
        return int(listening.getsockname()[1])


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
