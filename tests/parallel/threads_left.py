"""``threads_left.py FOLDER WORDS``: what the interpreter would do with the words.

Then it leaves, in a file of this process's rank, the names of the threads that are left.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path


def threads() -> list[str]:
    """The names of this process's threads, as the kernel has them."""
    return [
        (task / "comm").read_text().strip() for task in sorted(Path("/proc/self/task").iterdir())
    ]


if __name__ == "__main__":
    folder, *words = sys.argv[1:]
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = words
            sys.path.insert(0, str(Path(words[0]).parent))
            runpy.run_path(words[0], run_name="__main__")
    finally:
        Path(folder, f"{os.environ['RANK']}.json").write_text(json.dumps(threads()))
