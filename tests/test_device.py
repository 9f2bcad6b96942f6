"""Which device and precision are chosen, and what is said where they cannot be had."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
import torch

from densirank import Ranker, device
from densirank.device import (
    LARGEST_HALF_DIM,
    Hardware,
    memory_bytes,
    resolve_device,
    resolve_hardware,
)
from densirank.errors import InputError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
PAIRS = [(user, item) for user in range(6) for item in range(6) if (user + item) % 2 == 0]


def _pretend(
    patch: pytest.MonkeyPatch,
    cuda: bool = True,
    capability: tuple[int, int] = (9, 0),
    triton: bool = True,
) -> None:
    """A machine of this kind, as far as can be asked."""
    spec = ModuleSpec("triton", None) if triton else None
    patch.setattr(torch.cuda, "is_available", lambda: cuda)
    patch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    patch.setattr(device, "find_spec", lambda name: spec)


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_a_cpu_counts_in_single_precision(precision: str) -> None:
    assert resolve_hardware("cpu", precision, 64) == Hardware(CPU, half=False)


@pytest.mark.parametrize("device", ["auto", "cuda"])
@pytest.mark.parametrize(
    ("precision", "half"), [("auto", True), ("half", True), ("float32", False)]
)
def test_a_gpu_that_can_counts_in_half_precision_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, device: str, precision: str, half: bool
) -> None:
    _pretend(monkeypatch)
    assert resolve_hardware(device, precision, LARGEST_HALF_DIM) == Hardware(CUDA, half)


@pytest.mark.parametrize(
    ("machine", "dim", "missing"),
    [
        ({"cuda": False}, 64, "a CUDA device"),
        ({"capability": (7, 5)}, 64, "a GPU of compute capability 8.0 or more"),
        ({"triton": False}, 64, "the package triton"),
        ({}, LARGEST_HALF_DIM + 1, f"vectors of at most {LARGEST_HALF_DIM} dimensions"),
    ],
)
def test_what_half_precision_misses_is_named_and_auto_does_without(
    monkeypatch: pytest.MonkeyPatch, machine: dict[str, bool], dim: int, missing: str
) -> None:
    _pretend(monkeypatch, **machine)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"half precision needs {missing}; choose float32"):
        resolve_hardware("auto", "half", dim)
    assert not resolve_hardware("auto", "auto", dim).half


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    _pretend(monkeypatch, cuda=True)
    assert [resolve_device(name) for name in ("auto", "cuda", "cpu")] == [CUDA, CUDA, CPU]
    _pretend(monkeypatch, cuda=False)
    assert [resolve_device(name) for name in ("auto", "cpu")] == [CPU, CPU]
    with pytest.raises(InputError, match="no CUDA device can be used here; choose --device cpu"):
        resolve_device("cuda")


@pytest.mark.parametrize(
    ("device", "precision", "sentence"),
    [
        ("tpu", "auto", "there is no device 'tpu'; choose auto, cpu or cuda"),
        ("cpu", "double", "there is no precision 'double'; choose auto, half or float32"),
        ("cpu", "half", "half precision needs a CUDA device"),
    ],
)
def test_a_ranker_says_what_cannot_be_had(device: str, precision: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Ranker("wd-lgcn", device=device, precision=precision).fit(PAIRS)


def test_single_precision_is_what_a_cpu_would_have_used_anyway() -> None:
    vectors = [
        Ranker("wd-lgcn", dim=4, iterations=5, device="cpu", precision=precision).fit(PAIRS).scorer_
        for precision in ("auto", "float32")
    ]
    assert torch.equal(vectors[0].user_vectors, vectors[1].user_vectors)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="asks Linux")
def test_the_memory_beside_a_cpu_is_all_that_the_machine_has() -> None:
    total = Path("/proc/meminfo").read_text().splitlines()[0]  # MemTotal: 123 kB
    assert memory_bytes(CPU) == 1024 * int(total.split()[1])


def test_the_memory_of_a_gpu_is_what_is_free_or_kept_unused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5, 80))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 40)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 10)
    assert memory_bytes(CUDA) == 5 + 40 - 10


def test_a_system_that_does_not_tell_its_memory_is_not_doubted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sysconf")
    assert memory_bytes(CPU) == sys.maxsize
