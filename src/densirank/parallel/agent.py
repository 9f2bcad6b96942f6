"""Termination of torchrun itself, which hangs if the connection to the store was cut.

The processes of the run detect this and exit. torchrun detects it after fifteen minutes at best,
and does not handle signals until then. This file is therefore also a script that outlives the
process that starts it: it waits for torchrun to exit, and kills it if it does not.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

NAMES = ("torchrun", "torch.distributed.run")
"""Names that identify torchrun in a command line."""

PATIENCE = 8.0
"""Seconds that torchrun gets to detect that its processes have ended."""


def agent_of_this_process() -> int | None:
    """A pidfd of torchrun, if it started this process and will not restart it.

    A process id is not sufficient: the system could reuse it for another process.
    """
    said = os.environ
    if said.get("TORCHELASTIC_RESTART_COUNT") != said.get("TORCHELASTIC_MAX_RESTARTS", ""):
        return None
    parent = os.getppid()
    try:
        handle = os.pidfd_open(parent)
        command = Path(f"/proc/{parent}/cmdline").read_text(errors="replace")
    except (AttributeError, OSError):  # not Linux, or an old kernel
        return None
    if any(name in command for name in NAMES):
        return handle
    os.close(handle)
    return None


def end_with_this_process(agent: int) -> None:
    """Start the script that kills torchrun if it does not exit by itself."""
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, str(agent)],
        pass_fds=[agent],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _end(agent: int) -> None:
    ended, _, _ = select.select([agent], [], [], PATIENCE)
    if not ended:
        print("torchrun waits for a host that does not answer: killed", file=sys.stderr, flush=True)
        signal.pidfd_send_signal(agent, signal.SIGKILL)


if __name__ == "__main__":
    _end(int(sys.argv[1]))
