"""Where a figure comes from: the versions and the machine that made it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch

from densirank._version import __version__
from densirank.methods import method_named
from densirank.settings import Settings


def versions() -> dict[str, Any]:
    """What computed it."""
    return {
        "densirank": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def checkout(folder: Path = Path(__file__).parent) -> dict[str, Any]:
    """The commit that this file is of, and whether nothing was changed; None outside a checkout."""
    commit, changes = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain")
    return {"commit": commit, "clean": None if changes is None else not changes}


def _git(folder: Path, *words: str) -> str | None:
    """What git says of a folder, or None where there is no git or no checkout."""
    try:
        done = subprocess.run(
            ["git", "-C", folder, *words], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def hardware(device: str, method: str, settings: Settings) -> dict[str, Any]:
    """What it was computed on, and in which precision."""
    where = method_named(method).hardware(device, "auto", settings)
    return {
        "device": where.device.type,
        "gpu": torch.cuda.get_device_name() if where.device.type == "cuda" else None,
        "precision": "half" if where.half else "float32",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "machine": platform.platform(),
    }
