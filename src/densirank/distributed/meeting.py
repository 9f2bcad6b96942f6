"""How the processes of a run find each other, however often torchrun starts them anew.

torchrun has one store for all attempts of a run, and what an attempt has left there stays: the
addresses of processes that are gone, the word of what ended it. The number of restarts does not
tell attempts apart, for every node counts its own. So an attempt bears a name that its first
process makes up, and gives to processes by the names that they made up: nothing of another attempt
can be taken for an answer, and all that is said later is said under the attempt's name.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import uuid4

import torch.distributed as dist

from densirank.distributed.failures import LostContact
from densirank.errors import InputError

LOOK_EVERY = 0.02
"""Seconds between two looks of the first process at who is there."""


@dataclass(frozen=True)
class Meeting:
    """One attempt of a run by ``size`` processes, of which this is one."""

    rank: int
    size: int
    timeout: timedelta
    run: Any  # a store that all attempts share
    name: str  # of the attempt
    hosts_store: bool  # whether the store ends with this process

    @classmethod
    def found(cls, rank: int, size: int, timeout: timedelta) -> Meeting:
        """Learn the attempt's name from the first process, once that is there."""
        hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
        own_name = uuid4().hex
        try:
            run = _store(hosts, timeout)
            run.set(_place(rank), own_name)
            name = own_name if rank == 0 else run.get(_answer(own_name)).decode()
        except dist.DistError as error:
            raise _alone(rank, size, timeout, briefly(error)) from error
        if hosts and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0:
            run.set("begun", "yes")  # what the store of the attempts before would say
        return cls(rank, size, timeout, run, name, hosts)

    def gather(self) -> None:
        """Wait until all are there; the first process answers the others until they are."""
        try:
            arrived = self.store("meeting")
            if self.rank > 0:
                arrived.add("others", 1)
                return
            places = [_place(rank) for rank in range(1, self.size)]
            answered: set[bytes] = set()
            deadline = time.monotonic() + self.timeout.total_seconds()
            while arrived.add("others", 0) < len(places):
                for name in set(self.run.multi_get(places)) - answered:
                    self.run.set(_answer(name.decode()), self.name)
                    answered.add(name)
                if time.monotonic() > deadline:
                    raise self._alone("some have not come back after a restart")
                time.sleep(LOOK_EVERY)
        except dist.DistError as error:
            raise self._alone(briefly(error)) from error

    def connect(self, backend: str) -> None:
        """Make the process group; everybody's addresses are those of this attempt."""
        try:
            dist.init_process_group(
                backend,
                store=self.store("group"),
                rank=self.rank,
                world_size=self.size,
                timeout=self.timeout,
            )
        except RuntimeError as error:
            raise self._alone(briefly(error)) from error

    def store(self, name: str) -> Any:
        """A connection of its own, for one that waits answers no second question."""
        return dist.PrefixStore(f"{self.name}/{name}", self.run.clone())  # type: ignore[attr-defined]

    def _alone(self, reason: str) -> LostContact:
        return _alone(self.rank, self.size, self.timeout, reason)


def _store(hosted_here: bool, timeout: timedelta) -> Any:
    try:
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError) as error:
        raise InputError(
            "RANK and WORLD_SIZE are set, but MASTER_ADDR or MASTER_PORT is not: start several "
            "processes with torchrun, which sets them all"
        ) from error
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, is_master=hosted_here, timeout=timeout, wait_for_workers=False
    )
    return dist.PrefixStore("densirank", store)  # type: ignore[attr-defined]


def _place(rank: int) -> str:
    """Where a process leaves its name."""
    return f"place/{rank}"


def _answer(name: str) -> str:
    """Where it looks for the name of the attempt."""
    return f"answer/{name}"


def _alone(rank: int, size: int, timeout: timedelta, reason: str) -> LostContact:
    place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    return LostContact(
        f"process {rank} of {size} did not meet the others at {place} within "
        f"{timeout.total_seconds():g} s ({reason}); see that all nodes were started with "
        "the same --rdzv-endpoint and can reach it"
    )


def briefly(error: BaseException) -> str:
    """The first sentence of an error."""
    return str(error).strip().partition("\n")[0].partition(". ")[0]
