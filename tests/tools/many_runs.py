"""How runs of two processes end, many of them, some at once.

    PYTHONPATH=tests/tools python tests/tools/many_runs.py --runs 200 --at-once 3

Each is ``torchrun … densirank fit``, all of whose processes load everything themselves; a line of
JSON each, and in the end how often there was which exit status, and the seconds they took.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from two_hosts import fit_words, log_file

SECONDS = 60
"""In which a run has to end."""


def run(number: int) -> dict[str, object]:
    """One fit: its exit status (None where it had to be killed), seconds, and what it wrote."""
    with TemporaryDirectory() as folder:
        log_file(Path(folder))
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--local-addr=127.0.0.1", "--nproc-per-node=2"]
        command += fit_words(Path(folder), iterations=20)
        started = time.monotonic()
        fit = subprocess.Popen(
            command,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        status: int | None = None
        try:
            _, written = fit.communicate(timeout=SECONDS)
            status = fit.returncode
        except subprocess.TimeoutExpired:
            os.killpg(fit.pid, 9)
            _, written = fit.communicate()
        seconds = round(time.monotonic() - started, 1)
    ended: dict[str, object] = {"number": number, "status": status, "seconds": seconds}
    return ended if status == 0 else ended | {"written": written}


def main() -> None:
    """Run them; end with 1 unless every one has ended well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=3)
    given = parser.parse_args()
    seconds, statuses = [], Counter[object]()
    with ThreadPoolExecutor(given.at_once) as threads:
        for ended in threads.map(run, range(given.runs)):
            print(json.dumps(ended), flush=True)
            statuses[ended["status"]] += 1
            seconds.append(float(str(ended["seconds"])))
    told = ", ".join(f"{count} × {status}" for status, count in statuses.items())
    print(
        f"Python {platform.python_version()}, {given.at_once} at once, exit status: {told}; "
        f"{min(seconds)} to {max(seconds)} s"
    )
    sys.exit(statuses[0] != given.runs)


if __name__ == "__main__":
    main()
