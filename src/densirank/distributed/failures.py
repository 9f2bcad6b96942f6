"""One process fails: all end, none hangs, and the first one says why.

A process that waits for another inside a collective can be told nothing. So every process has a
thread that looks, a few times a second, whether somebody has left word in a store that all can
read, and ends its process then. It also hears SIGTERM, by which torchrun stops those that are left
when one was killed.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import torch
import torch.distributed as dist

from densirank.errors import DensirankError, TrainingError

LOOK_EVERY = 0.1
"""Seconds between two looks at the store."""

GRACE = 0.5
"""Seconds in which a process may find by itself what another has found, or the cause come in."""

HEARING = 15.0
"""Seconds after which a process speaks itself, if the first one has not spoken for it."""


LEAVING = 5.0
"""Seconds for which a process whose store the others look at stays for them, having spoken."""


class LostContact(TrainingError):
    """Another process of the run cannot be reached any more."""


@dataclass(frozen=True)
class Word:
    """What a process leaves for the others when it fails."""

    rank: int
    sentence: str
    status: int

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Word:
        return cls(rank, sentence_of(error), status_of(error))


class Alarm:
    """While active, the failure of one process is the failure of all.

    ``store`` is a connection of its own: one that is waiting answers no second question. Where the
    store ends with this process (``hosts_store``), it ends last.
    """

    def __init__(
        self,
        rank: int,
        store: Any,
        hosts_store: bool = False,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self._rank, self._store, self._hosts_store = rank, store, hosts_store
        self._complain = complain or _print_error
        self._ending = threading.Event()
        self._speaking = threading.Lock()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._signals, self._signalled = socket.socketpair()

    def __enter__(self) -> Self:
        self._signalled.setblocking(False)
        signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
        self._previous = signal.signal(signal.SIGTERM, lambda *_: None)  # the watcher hears it
        self._store.add("present", 1)
        self._watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self._fail(error)
        self._ending.set()
        self._watcher.join()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, self._previous)
        self._signals.close()
        self._signalled.close()

    def _fail(self, error: BaseException) -> None:
        """Tell the others, let the first one say it, and end."""
        self._speaking.acquire()  # for good: who has it ends the process
        if not _expected(error):
            traceback.print_exception(error)
        if isinstance(error, LostContact):
            time.sleep(GRACE)  # who was lost may have left word why
        own = Word.of(error, self._rank)
        first = self._first_word(own)
        self._end_with(own if own.sentence == first.sentence else first)

    def _first_word(self, own: Word) -> Word:
        """The word of who failed first: this process's own, if nobody's came before."""
        try:
            left = self._store.compare_set("failure", "", json.dumps(asdict(own)))
        except dist.DistError:  # no store, no others' words
            return own
        return Word(**json.loads(left))

    def _watch(self) -> None:
        """End the process once there is word of a failure, a SIGTERM, or no store to look at."""
        while not self._ending.is_set():
            word = self._news()
            if word is None:
                continue
            if not self._ending.wait(GRACE):
                self._speaking.acquire()
                self._end_with(word)

    def _news(self) -> Word | None:
        ready, _, _ = select.select([self._signals], [], [], LOOK_EVERY)
        if ready and signal.SIGTERM in self._signals.recv(64):
            return self._first_word(Word(self._rank, STOPPED, 128 + signal.SIGTERM))
        try:
            if self._store.check(["failure"]):
                return Word(**json.loads(self._store.get("failure")))
        except dist.DistError as lost:
            return Word(self._rank, f"the rendezvous that started the run is gone ({lost})", 1)
        return None

    def _end_with(self, word: Word) -> None:
        if self._rank == 0 or not self._heard():
            of_whom = "" if word.rank == self._rank else f"process {word.rank}: "
            self._complain(of_whom + word.sentence)
        if self._rank == 0:
            self._acknowledge()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(word.status)

    def _heard(self) -> bool:
        """Whether the first process has said it: only then may others end, and it be stopped."""
        try:
            self._store.wait(["heard"], timedelta(seconds=HEARING))
            self._store.add("present", -1)
        except dist.DistError:
            return False
        return True

    def _acknowledge(self) -> None:
        """Tell the others that it is said; if the store ends with this process, let them hear."""
        deadline = time.monotonic() + LEAVING
        with suppress(dist.DistError):
            self._store.set("heard", "yes")
            while self._hosts_store and self._store.add("present", 0) > 1:
                if time.monotonic() > deadline:  # who was killed never leaves
                    return
                time.sleep(LOOK_EVERY)


STOPPED = (
    "stopped by SIGTERM, as torchrun does with all processes when one is lost; what was trained "
    "until the last checkpoint is kept, and --resume goes on from it"
)


def out_of_memory(error: BaseException) -> bool:
    """Whether memory was what was missing, on a device or beside it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def sentence_of(error: BaseException) -> str:
    """What to say about an error, in one sentence."""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, DensirankError):
        return text
    if out_of_memory(error):
        remedy = "use more processes, or lower users_per_batch, candidates or dim"
        return f"out of memory ({text}); {remedy}" if text else f"out of memory; {remedy}"
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {error.strerror or error}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; what was trained until the last checkpoint is kept"
    return f"{type(error).__name__}: {text}"


def status_of(error: BaseException) -> int:
    """The exit status that goes with an error, as the command line has it."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, TrainingError):
        return 1
    return 2 if isinstance(error, DensirankError | OSError) else 1


def _expected(error: BaseException) -> bool:
    """Whether a sentence says all there is to say."""
    told = isinstance(error, DensirankError | OSError | KeyboardInterrupt | SystemExit)
    return told or out_of_memory(error)


def _print_error(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr, flush=True)
