"""Where a figure comes from: the versions and the machine that made it."""

from __future__ import annotations

import os
import platform
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
