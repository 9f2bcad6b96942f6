from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["polars"] = None
from densirank.data import (
    adjacency_text, columns, datasets, interactions, reading, splitting, synthetic
)
assert len(reading.read([(1, 2), (1, 3)])) == 2
"""


def test_only_tables_need_polars() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
