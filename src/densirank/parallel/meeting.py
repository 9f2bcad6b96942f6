"""Rendezvous: how the processes of a run find each other, also after restarts by torchrun.

torchrun uses one store for all attempts of a run, and the keys of an attempt are never deleted:
addresses of processes that have exited, failure reports. The number of restarts does not identify
an attempt, because every node counts its own. The first process therefore generates a random name
for the attempt and passes it to each other process under a key that this process generated. A key
of an earlier attempt cannot be mistaken for an answer, and all later keys start with the name.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from uuid import uuid4

import torch.distributed as dist

from densirank.errors import InputError
from densirank.parallel.store import RunStore
from densirank.world import LostContact

LOOK_EVERY = 0.02
"""Seconds between two checks of the first process for arrived processes."""

SIOCGIFADDR = 0x8915
"""Linux ioctl request for the address of a network interface."""


@dataclass(frozen=True)
class Meeting:
    """One attempt of a run by ``size`` processes, as seen by one of them."""

    rank: int
    size: int
    timeout: timedelta
    run: RunStore  # shared by all attempts
    name: str  # of the attempt
    hosts_store: bool  # whether the store ends with this process

    @classmethod
    def found(cls, rank: int, size: int, timeout: timedelta) -> Meeting:
        """Get the attempt's name from the first process, once it has arrived."""
        hosts = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != str(True)
        own_name = uuid4().hex
        try:
            run = _store(hosts, timeout)
            run.set(_place(rank), own_name)
            name = own_name if rank == 0 else run.get(_answer(own_name))
            if hosts and int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) > 0:
                run.set("begun", "yes")  # as the store of earlier attempts would hold
        except dist.DistError as error:
            raise _alone(rank, size, timeout, briefly(error)) from error
        return cls(rank, size, timeout, run, name, hosts)

    def gather(self) -> None:
        """Wait until all processes have arrived; meanwhile the first one answers the others."""
        try:
            arrived = self.store("meeting")
            if self.rank > 0:
                arrived.add("others", 1)
                return
            places = [_place(rank) for rank in range(1, self.size)]
            answered: set[str] = set()
            deadline = time.monotonic() + self.timeout.total_seconds()
            while arrived.add("others", 0) < len(places):
                for name in set(self.run.get_all(places)) - answered:
                    self.run.set(_answer(name), self.name)
                    answered.add(name)
                if time.monotonic() > deadline:
                    raise self._alone("some processes did not return after a restart")
                time.sleep(LOOK_EVERY)
        except dist.DistError as error:
            raise self._alone(briefly(error)) from error

    def connect(self, backend: str) -> None:
        """Create the process group, using only addresses of this attempt.

        Functions of ``torch.distributed.nn`` bind the default group at import time, which would
        keep the group and its threads alive: they are imported before the group is created.
        """
        import_module("torch.distributed.nn.functional")
        _listen_towards_the_others()
        try:
            dist.init_process_group(
                backend,
                store=self.store("group").raw,
                rank=self.rank,
                world_size=self.size,
                timeout=self.timeout,
            )
        except RuntimeError as error:
            raise self._alone(briefly(error)) from error

    def store(self, name: str) -> RunStore:
        """A separate connection to the keys of this attempt."""
        try:
            return self.run.named(f"{self.name}/{name}")
        except dist.DistError as error:
            raise self._alone(briefly(error)) from error

    def _alone(self, reason: str) -> LostContact:
        return _alone(self.rank, self.size, self.timeout, reason)


def _store(hosted_here: bool, timeout: timedelta) -> RunStore:
    host, port = _where()
    if hosted_here:
        _require_own_name(host, port)
    store = dist.TCPStore(  # type: ignore[attr-defined]
        host, port, is_master=hosted_here, timeout=timeout, wait_for_workers=False
    )
    own = dist.PrefixStore("densirank", store)  # type: ignore[attr-defined]
    return RunStore(own, timeout.total_seconds())


def _where() -> tuple[str, int]:
    try:
        return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError) as error:
        raise InputError(
            "RANK and WORLD_SIZE are set, but MASTER_ADDR or MASTER_PORT is not: start several "
            "processes with torchrun, which sets them all"
        ) from error


def _require_own_name(host: str, port: int) -> None:
    """Raise if this machine cannot resolve its own name, because retrying will not help."""
    try:
        socket.getaddrinfo(host, port)
    except socket.gaierror as error:
        raise InputError(
            f"the rendezvous is at {host!r}, which this machine cannot resolve: pass torchrun "
            "--local-addr with an address of this machine (127.0.0.1 if there is no other host), "
            "or add the name to /etc/hosts"
        ) from error


def _listen_towards_the_others() -> None:
    """Make gloo listen on the network interface from which this process reaches the others.

    By default gloo uses the address that the machine's own name resolves to: none in a bare
    container, and on Debian a loopback address, which other hosts cannot reach.
    """
    if sys.platform != "linux" or "GLOO_SOCKET_IFNAME" in os.environ:
        return
    host, port = _where()
    if os.environ.get("LOCAL_WORLD_SIZE") == os.environ["WORLD_SIZE"]:
        host = "127.0.0.1"
    interface = interface_towards(host, port)
    by_a_name = not (host == "localhost" or host.startswith("127."))
    if interface == "lo" and by_a_name:  # the name is local to this machine
        return
    if interface is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = interface


def interface_towards(host: str, port: int) -> str | None:
    """The network interface that this machine uses to reach a host by IPv4."""
    import fcntl

    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))  # sends nothing
        own = socket.inet_aton(probe.getsockname()[0])
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            with suppress(OSError):  # an interface without an address
                if fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24] == own:
                    return name
    return None


def _place(rank: int) -> str:
    """The key for the name of a process."""
    return f"place/{rank}"


def _answer(name: str) -> str:
    """The key under which a process gets the name of the attempt."""
    return f"answer/{name}"


def _alone(rank: int, size: int, timeout: timedelta, reason: str) -> LostContact:
    place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    return LostContact(
        f"process {rank} of {size} did not meet the others at {place} within "
        f"{timeout.total_seconds():g} s ({reason}); check that all hosts use the same "
        "--rdzv-endpoint, can reach it, and can reach each other by host name, or pass torchrun "
        "--local-addr with the address of each host"
    )


def briefly(error: BaseException) -> str:
    """The first sentence of an error, without the source location."""
    first = str(error).strip().partition("\n")[0].partition(". ")[0]
    return re.sub(r"^\[[^]]*\]\s*", "", first)
