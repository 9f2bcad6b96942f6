"""The processes that work together: which one this is, and what they send each other.

A world of one process sends nothing, so the same code trains with one process and with many. NCCL
carries what lies on GPUs and gloo everything else; nothing outside this file knows which. What is
sent is short: rows of tables, sums of numbers, and texts (through torchrun's store, never pickled).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from densirank.errors import InputError, TrainingError

TIMEOUT_VARIABLE = "DENSIRANK_TIMEOUT"
TIMEOUT = 600.0
"""Seconds a process waits for the others before it gives up, unless the variable says otherwise."""

KEPT = "what was trained until the last checkpoint is kept, and --resume goes on from it"


class LostContact(TrainingError):
    """Another process of the run cannot be reached any more."""


class Texts(Protocol):
    """A store that all processes write to and read from."""

    def set(self, key: str, value: str) -> None: ...

    def get(self, key: str) -> str: ...

    def has(self, key: str) -> bool: ...


@dataclass(frozen=True)
class World:
    """This process among ``size``; a world of one sends nothing."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    backend: str | None = None
    store: Texts | None = None  # of this attempt, where there is more than one process
    run: Texts | None = None  # of the run: it lasts when torchrun starts the processes again
    turns: Iterator[int] = field(default_factory=count)  # numbers the exchanges of texts

    @property
    def sharded(self) -> bool:
        """Whether each process holds its share alone: under torchrun, even as the only process."""
        return self.backend is not None

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes for all."""
        return self.rank == 0

    def begun(self) -> bool:
        """Whether the run had begun before torchrun started these processes again."""
        with in_contact():
            return self.run is not None and self.run.has("begun")

    def begin(self) -> None:
        """Record that there is something to resume from here on."""
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
        """Whether the flag is set on any process."""
        if self.size == 1:
            return flag
        return bool(self.sum_(torch.tensor(float(flag), device=self.device)))

    def gathered(self, rows: Tensor) -> Tensor:
        """The rows of all processes, in the order of ranks, on every process."""
        if self.size == 1:
            return rows
        counts = self._counts(len(rows))
        padded = rows.new_zeros((max(counts), *rows.shape[1:]))
        padded[: len(rows)] = rows
        everybodys = [torch.empty_like(padded) for _ in counts]
        with in_contact():
            dist.all_gather(everybodys, padded)
        return torch.cat([part[:count] for part, count in zip(everybodys, counts, strict=True)])

    def collected(self, rows: Tensor) -> Tensor | None:
        """The same in the memory of the first process's host, and None on all other processes.

        They come one process at a time, so that a GPU need not hold them all. The rows of a world
        of one stay where they are.
        """
        if self.size == 1:
            return rows
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
        """Send the first ``sent[0]`` rows to process 0, the next ``sent[1]`` to 1, and so on.

        ``received`` says how many rows come from each process; they are returned in that order.
        """
        if self.size == 1:
            return rows
        came = rows.new_empty((sum(received), *rows.shape[1:]))
        with in_contact():
            dist.all_to_all_single(came, rows.contiguous(), list(received), list(sent))
        return came

    def texts(self, topic: str, text: str) -> list[str]:
        """The text of every process about a topic, by rank."""
        if self.store is None:
            return [text]
        topic = f"{topic}/{next(self.turns)}"
        with in_contact():
            self.store.set(f"{topic}/{self.rank}", text)
            return [self.store.get(f"{topic}/{rank}") for rank in range(self.size)]

    def require_same(self, given: Mapping[str, object]) -> None:
        """Refuse to go on where processes were given different data or options."""
        first, *others = map(json.loads, self.texts("given", json.dumps(given)))
        for rank, other in enumerate(others, start=1):
            for key, value in first.items():
                if other.get(key) != value:
                    raise InputError(
                        f"process {rank} differs from process 0 in its {key}: {other.get(key)!r}, "
                        f"not {value!r}; give all processes the same data and options"
                    )

    def wait(self) -> None:
        """Wait until every process is here."""
        self.any(False)

    def _counts(self, count: int) -> list[int]:
        own = torch.tensor([count], device=self.device)
        counts = [torch.empty_like(own) for _ in range(self.size)]
        with in_contact():
            dist.all_gather(counts, own)
        return [int(other) for other in counts]


ONE_PROCESS = World()
"""The default wherever a world is taken."""


def timeout_seconds() -> float:
    """How long a process waits for the others before it gives up."""
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
        return f"has not answered for {timeout_seconds():g} s" if of_network else None
    return "has ended, or the connection to it broke" if of_network else None
