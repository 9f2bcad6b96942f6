"""Joining and leaving the process group of a torchrun run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist

from densirank.device import resolve_device
from densirank.errors import InputError
from densirank.parallel.failures import Alarm
from densirank.parallel.meeting import Meeting
from densirank.world import LostContact, World, timeout_seconds


def under_torchrun() -> bool:
    """Whether torchrun started this process."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@contextmanager
def joined(device: str = "auto", complain: Callable[[str], None] | None = None) -> Iterator[World]:
    """The world described by torchrun's environment, or a single process without torchrun.

    If a process fails inside the block, all processes exit with a non-zero status, and the first
    one reports the error in one line (by ``complain``).
    """
    if not under_torchrun():
        yield World(device=resolve_device(device))
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = Meeting.found(rank, size, timedelta(seconds=timeout_seconds()))
    with Alarm(rank, meeting.store("alarm"), meeting.hosts_store, complain):
        meeting.gather()
        where = _own_device(device)
        backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
        meeting.connect(backend)
        world = World(rank, size, where, backend, meeting.store("texts"), meeting.run)
        yield world
        world.wait()
    try:
        world.wait()  # now no process uses the store, which may end with its process
    except LostContact:
        pass  # the others are done and may have exited; so is this one
    finally:
        dist.destroy_process_group()


def _own_device(name: str) -> torch.device:
    """The GPU of this process's number on its machine, or the CPU."""
    device = resolve_device(name)
    if device.type == "cpu":
        return device
    number, count = int(os.environ.get("LOCAL_RANK", 0)), torch.cuda.device_count()
    if number >= count:
        raise InputError(
            f"there are more processes on this machine than GPUs ({count}): use "
            f"--nproc-per-node={count}, or --device cpu"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)
