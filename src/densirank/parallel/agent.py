"""Ending torchrun's own process, which hangs where the connection to the store was cut.

The processes of the run notice and end; torchrun itself would notice after a quarter of an hour at
best, and handles no signals until then. So this file is also a script, which outlives the process
that starts it: it waits for torchrun to end by itself, and otherwise kills it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

NAMES = ("torchrun", "torch.distributed.run")
"""torchrun is recognised by one of these in its command line."""

PATIENCE = 8.0
"""Seconds in which torchrun may notice by itself that its processes have ended."""


def agent_of_this_process() -> int | None:
    """A handle of torchrun, if it started this process and will not start it again.

    A process id would not do: the system may have given it to another process by then.
    """
    said = os.environ
    if said.get("TORCHELASTIC_RESTART_COUNT") != said.get("TORCHELASTIC_MAX_RESTARTS", ""):
        return None
    parent = os.getppid()
    try:
        handle = os.pidfd_open(parent)
        command = Path(f"/proc/{parent}/cmdline").read_text(errors="replace")
    except (AttributeError, OSError):  # not Linux, or an old one
        return None
    if any(name in command for name in NAMES):
        return handle
    os.close(handle)
    return None


def end_with_this_process(agent: int) -> None:
    """Start the script that ends torchrun if it does not end by itself."""
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
