"""torchrun's own process, which waits without a limit where a cable to the store was cut.

A process of the run that has to end for that reason says so and ends; torchrun would notice after a
quarter of an hour at best, and is deaf to signals until then. So this file is also a script, which
outlives the process that starts it: it lets torchrun end by itself, and otherwise kills it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

PATIENCE = 4.0
"""Seconds in which torchrun may notice by itself that its processes have ended."""


def end_with_this_process() -> None:
    """See that torchrun ends too, unless it is to start its processes again."""
    said = os.environ
    last_attempt = said.get("TORCHELASTIC_RESTART_COUNT") == said.get("TORCHELASTIC_MAX_RESTARTS")
    by_torchrun = "TORCHELASTIC_RUN_ID" in said and said.get("LOCAL_RANK") == "0"
    if sys.platform != "linux" or not by_torchrun or not last_attempt:
        return
    agent = os.pidfd_open(os.getppid())  # not its number, which may be another's by then
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
