"""What the benchmarks share: processes of their own, medians, peak memory, and where they ran."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, ParamSpec, TypeVar

import torch

from densirank import __version__
from peers.exchange import peak_mib as process_peak_mib

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Measurement:
    """Median seconds of some work, and the MiB it took beyond what was there before."""

    seconds: float
    extra_mib: float


def in_own_process(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function of a module in a fresh process, so that its peak memory is its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:  # says so if the process is killed
        return pool.submit(function, *args, **kwargs).result()


def median_seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """The median time of some work, after one round to warm up."""
    seconds = []
    for _ in range(repeats + 1):
        wait(device)
        started = time.perf_counter()
        work()
        wait(device)
        seconds.append(time.perf_counter() - started)
    return median(seconds[1:])


def wait(device: str) -> None:
    """Let a GPU finish what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()


def peak_mib(device: str) -> float:
    """The most memory this process has held so far, on the device that is measured."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated() / 2**20
    return process_peak_mib()


def forget_peak() -> None:
    """Let the peak of this process's own memory start again at what it holds now (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def environment(device: str) -> dict[str, Any]:
    """Where a figure comes from."""
    gpu = torch.cuda.get_device_name() if device == "cuda" else None
    return {
        "densirank": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": gpu,
    }
