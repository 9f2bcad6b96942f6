"""Where a fit runs, and how finely it counts there."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from densirank.errors import InputError

LARGEST_HALF_DIM = 256
"""Longer vectors do not fit a GPU's registers in the half-precision kernels."""


@dataclass(frozen=True)
class Hardware:
    """A device, and whether products are taken in half precision on its tensor cores."""

    device: torch.device
    half: bool = False


def check_names(device: str, precision: str = "auto") -> None:
    """Raise an error for a device or a precision that there is nowhere.

    >>> check_names("gpu")
    Traceback (most recent call last):
    densirank.errors.InputError: there is no device 'gpu'; choose auto, cpu or cuda
    """
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"there is no device {device!r}; choose auto, cpu or cuda")
    if precision not in ("auto", "half", "float32"):
        raise InputError(f"there is no precision {precision!r}; choose auto, half or float32")


def resolve_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one; asking for one that is not there is an error."""
    check_names(name)
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("no CUDA device can be used here; choose --device cpu (or auto)")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def resolve_hardware(device: str, precision: str, dim: int, has_kernels: bool = True) -> Hardware:
    """``auto`` precision is half where the kernels for it can run, float32 elsewhere."""
    check_names(device, precision)
    where = resolve_device(device)
    obstacle = _obstacle_to_half(where, dim) if has_kernels else "a method with a density risk"
    if precision == "half" and obstacle is not None:
        raise InputError(f"half precision needs {obstacle}; choose float32 (or auto)")
    return Hardware(where, precision != "float32" and obstacle is None)


def memory_bytes(device: torch.device) -> int:
    """What a computation can have at most: what is free on a GPU, all there is beside a CPU.

    What torch keeps there for later use is as good as free: an earlier fit may have left much of
    it.
    """
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + kept
    if not hasattr(os, "sysconf"):  # Windows does not say
        return sys.maxsize
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _obstacle_to_half(device: torch.device, dim: int) -> str | None:
    """What the half-precision kernels miss here, or None if they can run."""
    if device.type != "cuda":
        return "a CUDA device"
    if torch.cuda.get_device_capability(device) < (8, 0):
        return "a GPU of compute capability 8.0 or more"
    if find_spec("triton") is None:
        return "the package triton"
    if dim > LARGEST_HALF_DIM:
        return f"vectors of at most {LARGEST_HALF_DIM} dimensions"
    return None
