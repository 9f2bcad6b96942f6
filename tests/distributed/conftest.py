from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SCENES = Path(__file__).with_name("scenes.py")
TIME_LIMIT = 120

Scene = Callable[[str, Path], str]


@pytest.fixture(scope="session")
def scene() -> Scene:
    """Plays a scene of ``scenes.py`` in processes of its own; what they wrote to stderr."""

    def play(name: str, folder: Path) -> str:
        done = subprocess.run(
            [sys.executable, str(SCENES), name, str(folder)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stderr

    return play
