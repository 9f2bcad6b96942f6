"""The processes that work together: who is who, and the few things they say to each other.

NCCL carries what lies on GPUs and gloo all else; nothing outside this file knows which. What is
said is short: rows of tables, sums of numbers, and texts (through torchrun's store, never pickled).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor

from densirank.device import resolve_device
from densirank.distributed.failures import KEPT, Alarm, LostContact
from densirank.distributed.meeting import Meeting
from densirank.distributed.store import RunStore
from densirank.errors import InputError

TIMEOUT_VARIABLE = "DENSIRANK_TIMEOUT"
TIMEOUT = 600.0
"""Seconds a process waits for the others before it gives up, unless the variable says otherwise."""


def under_torchrun() -> bool:
    """Whether this process is one of several that were started to work together."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


@dataclass(frozen=True)
class World:
    """This process among ``size``; alone, everything it says to the others is said to itself."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    backend: str | None = None
    store: RunStore | None = None  # of texts, where there is more than one process
    run: RunStore | None = None  # which lasts when torchrun starts the processes anew
    turns: Iterator[int] = field(default_factory=count)  # that texts have been exchanged

    @classmethod
    def alone(cls, device: torch.device | None = None) -> World:
        """A world of one process, which needs no torchrun."""
        return cls(device=device or torch.device("cpu"))

    @property
    def together(self) -> bool:
        """Whether torchrun has started it, be it as the only one."""
        return self.backend is not None

    @property
    def first(self) -> bool:
        """Whether this is the process that speaks, and writes, for all."""
        return self.rank == 0

    def begun(self) -> bool:
        """Whether the run had begun before torchrun started these processes anew."""
        with in_contact():
            return self.run is not None and self.run.has("begun")

    def begin(self) -> None:
        """From here on there is something to go on with."""
        if self.run is not None:
            with in_contact():
                self.run.set("begun", "yes")

    def bounds(self, n_rows: int) -> list[int]:
        """Where the rows of each process start, and the end: equal parts, in the order of ranks.

        >>> World(size=4).bounds(9)
        [0, 3, 6, 9, 9]
        """
        part = -(-n_rows // self.size)
        return [min(rank * part, n_rows) for rank in range(self.size + 1)]

    def own(self, n_rows: int) -> range:
        """The rows of this process."""
        bounds = self.bounds(n_rows)
        return range(bounds[self.rank], bounds[self.rank + 1])

    def sum_(self, values: Tensor) -> Tensor:
        """Add up the values of all processes, in place; every process has the sum."""
        if self.size > 1:
            with in_contact():
                dist.all_reduce(values)
        return values

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""
        if self.size == 1:
            return flag
        return bool(self.sum_(torch.tensor(float(flag), device=self.device)))

    def gathered(self, rows: Tensor) -> list[Tensor]:
        """The rows of every process, on every process; they need not be equally many."""
        if self.size == 1:
            return [rows]
        counts = self._counts(len(rows))
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: len(rows)] = rows
        everybodys = [torch.empty_like(padded) for _ in counts]
        with in_contact():
            dist.all_gather(everybodys, padded)
        return [part[:count] for part, count in zip(everybodys, counts, strict=True)]

    def collected(self, rows: Tensor) -> Tensor | None:
        """The rows of all processes one below the other, in the first one's memory; None elsewhere.

        They come one process at a time, so that a GPU need not hold them all.
        """
        if self.size == 1:
            return rows.cpu()
        counts = self._counts(len(rows))
        with in_contact():
            if not self.first:
                if len(rows) > 0:
                    dist.send(rows.contiguous(), 0)
                return None
            parts = [rows.cpu()]
            for rank in range(1, self.size):
                if counts[rank] > 0:
                    part = rows.new_empty((counts[rank], *rows.shape[1:]))
                    dist.recv(part, rank)
                    parts.append(part.cpu())
            return torch.cat(parts)

    def exchange(self, rows: Tensor, sent: Sequence[int], received: Sequence[int]) -> Tensor:
        """Send the first ``sent[0]`` rows to process 0, the next to 1, …; what came, in that order.

        Who knows how many it will receive says so in ``received``.
        """
        if self.size == 1:
            return rows
        came = rows.new_empty((sum(received), *rows.shape[1:]))
        with in_contact():
            dist.all_to_all_single(came, rows.contiguous(), list(received), list(sent))
        return came

    def texts(self, topic: str, text: str) -> list[str]:
        """What every process says about a topic, by rank."""
        if self.store is None:
            return [text]
        topic = f"{topic}/{next(self.turns)}"
        with in_contact():
            self.store.set(f"{topic}/{self.rank}", text)
            return [self.store.get(f"{topic}/{rank}") for rank in range(self.size)]

    def wait(self) -> None:
        """Until every process is here."""
        self.any(False)

    def _counts(self, count: int) -> list[int]:
        own = torch.tensor([count], device=self.device)
        counts = [torch.empty_like(own) for _ in range(self.size)]
        with in_contact():
            dist.all_gather(counts, own)
        return [int(other) for other in counts]


@contextmanager
def joined(device: str = "auto", complain: Callable[[str], None] | None = None) -> Iterator[World]:
    """The world that torchrun's environment describes, or one process alone where there is none.

    A process that fails inside takes all others with it: the first one says why, in one sentence
    (by ``complain``), and every one ends with a status that is not zero.
    """
    if not under_torchrun():
        yield World.alone(resolve_device(device))
        return
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    meeting = Meeting.found(rank, size, timedelta(seconds=_timeout_seconds()))
    with Alarm(rank, meeting.store("alarm"), meeting.hosts_store, complain):
        meeting.gather()
        where = _own_device(device)
        backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
        meeting.connect(backend)
        world = World(rank, size, where, backend, meeting.store("texts"), meeting.run)
        yield world
        world.wait()
    try:
        world.wait()  # none looks at the store any more, which may end with its process
    except LostContact:
        pass  # who has done its work may be gone: this process's is done as well
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
            f"there are more processes on this machine than its {count} GPUs: start it with "
            f"--nproc-per-node={count}, or choose --device cpu"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _timeout_seconds() -> float:
    text = os.environ.get(TIMEOUT_VARIABLE, str(TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e6:
        raise InputError(f"{TIMEOUT_VARIABLE} is a number of seconds above 0, not {text!r}")
    return seconds


@contextmanager
def in_contact() -> Iterator[None]:
    """Convert failures of the network to LostContact; others stay what they are."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        what = _what_broke(error)
        if what is None:
            raise
        raise LostContact(f"another process of the run {what}; {KEPT}") from error


def _what_broke(error: RuntimeError) -> str | None:
    """What a collective's or a store's error says of the others; None if it is about this one."""
    text = str(error).lower()
    of_network = isinstance(error, dist.DistError) or "gloo/transport" in text
    if isinstance(error, dist.DistBackendError):  # NCCL's, which may be about this GPU
        of_network = any(word in text for word in ("remote", "system error", "connection", "abort"))
    if any(word in text for word in ("timed out", "timeout", "did not answer")):
        return f"has not answered for {_timeout_seconds():g} s" if of_network else None
    return "has ended, or the connection to it broke" if of_network else None
