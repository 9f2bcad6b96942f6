"""Failure handling: if one process fails, all processes exit and the first one prints the error.

A process that waits inside a collective cannot receive a message. Every process therefore has a
listener thread, which polls the store several times a second for a reported failure, and a watcher
thread, which then ends the process. The watcher also ends it on SIGTERM, by which torchrun stops
the other processes when one was killed. Neither the watcher nor the exit waits for the store:
reporting is abandoned after :data:`LAST_WORD`, and the process exits within :data:`END_WITHIN`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

import torch
import torch.distributed as dist

from densirank.errors import DensirankError, TrainingError
from densirank.parallel import agent
from densirank.parallel.store import RunStore
from densirank.world import KEPT, LostContact

LOOK_EVERY = 0.1
"""Seconds between two polls of the store."""

GRACE = 0.5
"""Seconds for a process to detect the failure itself, or for the report of its cause to arrive."""

LAST_WORD = 3.0
"""Seconds for the store to accept this process's report, or to return an earlier one."""

HEARING = 7.0
"""Seconds after which a process prints the error itself, if the first one has not."""

LEAVING = 5.0
"""Seconds for which the process that hosts the store waits for the others, after printing."""

BRIEF = 1.0
"""Timeout in seconds of all other requests to the store when a process ends."""

END_WITHIN = 13.0
"""Seconds after which a failing process exits in all cases."""


@dataclass(frozen=True)
class Word:
    """The failure report of a process, for the other processes."""

    rank: int
    sentence: str
    status: int

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Word:
        return cls(rank, sentence_of(error), status_of(error))


class Alarm:
    """Context manager in which the failure of one process ends all processes.

    ``store`` must be a separate connection. The process that hosts the store (``hosts_store``)
    exits last.
    """

    def __init__(
        self,
        rank: int,
        store: RunStore,
        hosts_store: bool = False,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self._rank, self._store, self._hosts_store = rank, store, hosts_store
        self._complain = complain or _print_error
        self._left = threading.Event()
        self._ending = threading.Lock()
        self._stopped = False  # by SIGTERM
        self._status = 1
        self._news: Word | None = None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._bell, self._rope = socket.socketpair()

    def __enter__(self) -> Self:
        try:
            self._store.add("present", 1)
        except dist.DistError as error:
            raise LostContact(GONE) from error
        self._agent = agent.agent_of_this_process()
        self._rope.setblocking(False)
        self._previous_fd = signal.set_wakeup_fd(self._rope.fileno(), warn_on_full_buffer=False)
        self._previous = signal.signal(signal.SIGTERM, lambda *_: None)  # the watcher handles it
        self._watcher.start()
        self._listener.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self._fail(error)
        self._left.set()
        self._listener.join(LAST_WORD)  # it may wait for a store that does not answer
        self._ring()
        self._watcher.join()
        signal.set_wakeup_fd(self._previous_fd)
        signal.signal(signal.SIGTERM, self._previous)
        self._bell.setblocking(False)
        with suppress(BlockingIOError):
            self._stopped |= signal.SIGTERM in self._bell.recv(64)
        self._bell.close()
        self._rope.close()
        if self._agent is not None:
            os.close(self._agent)
        if self._stopped:  # too late to end all processes, so end only this one
            signal.raise_signal(signal.SIGTERM)

    def _fail(self, error: BaseException) -> None:
        """Report the failure, let the first process print it, and exit."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is ending already
        own = Word.of(error, self._rank)
        with self._end(own):
            if not _expected(error):
                traceback.print_exception(error)
            if isinstance(error, LostContact):
                time.sleep(GRACE)  # the lost process may have reported the cause
            first = self._first_word(own)
            self._say(own if own.sentence == first.sentence else first)

    def _listen(self) -> None:
        """Poll the store until a failure is reported or the store is unreachable."""
        while not self._left.wait(LOOK_EVERY):
            try:
                if not self._store.has("failure"):
                    continue
                self._news = Word(**json.loads(self._store.get("failure")))
            except dist.DistError:
                self._news = Word(self._rank, GONE, 1)
            self._ring()
            return

    def _watch(self) -> None:
        """End the process once a failure is reported, or on SIGTERM."""
        while not self._left.is_set():
            self._stopped |= signal.SIGTERM in self._bell.recv(64)
            word = self._news
            if self._stopped:
                word = Word(self._rank, STOPPED, 128 + signal.SIGTERM)
            if word is not None and not self._left.wait(GRACE):
                with self._end(word):
                    self._say(self._first_word(word) if self._stopped else word)

    def _ring(self) -> None:
        """Wake the watcher, unless its buffer is full or it has ended."""
        with suppress(OSError):  # the listener may outlive the run and find the socket closed
            self._rope.send(b"\0")

    @contextmanager
    def _end(self, word: Word) -> Iterator[None]:
        """Exit the process after this block, or during it after :data:`END_WITHIN`.

        Only the first thread that enters exits the process; others block.
        """
        self._ending.acquire()
        self._status = word.status
        try:
            last = threading.Timer(END_WITHIN, self._leave)
            last.daemon = True
            last.start()
            yield
        finally:
            self._leave()

    def _leave(self) -> None:
        with suppress(Exception):
            if self._store.lost and self._agent is not None:
                agent.end_with_this_process(self._agent)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(self._status)

    def _first_word(self, own: Word) -> Word:
        """The report of the process that failed first; this one's if there is no earlier one."""
        try:
            left = self._store.first("failure", json.dumps(asdict(own)), within=LAST_WORD)
        except dist.DistError:  # without a store there are no other reports
            return own
        return Word(**json.loads(left))

    def _say(self, word: Word) -> None:
        """Print the error if this is the process that prints it."""
        self._status = word.status
        if self._rank == 0 or self._speaks_for_others():
            of_whom = "" if word.rank == self._rank else f"process {word.rank}: "
            with suppress(Exception):  # the output may be closed
                self._complain(of_whom + word.sentence)
        if self._rank == 0:
            self._acknowledge()

    def _speaks_for_others(self) -> bool:
        """Whether this process prints the error because the first process has not done so.

        The other processes wait for the first one: torchrun would stop it as soon as one of them
        exits.
        """
        with suppress(dist.DistError):
            self._store.wait("heard", within=HEARING)
            with suppress(dist.DistError):
                self._store.add("present", -1, within=BRIEF)
            return False
        with suppress(dist.DistError):
            return self._store.add("spoken", 1, within=BRIEF) == 1
        return os.environ.get("LOCAL_RANK", "0") == "0"

    def _acknowledge(self) -> None:
        """Announce that the error is printed; the host of the store waits for all to read it."""
        deadline = time.monotonic() + LEAVING
        with suppress(dist.DistError):
            self._store.set("heard", "yes", within=BRIEF)
            while self._hosts_store and self._store.add("present", 0, within=BRIEF) > 1:
                if time.monotonic() > deadline:  # a killed process never leaves
                    return
                time.sleep(LOOK_EVERY)


GONE = f"the rendezvous of the run, on the host of its first process, is unreachable; {KEPT}"

STOPPED = f"stopped by SIGTERM, which torchrun sends to all processes if one is lost; {KEPT}"


def out_of_memory(error: BaseException) -> bool:
    """Whether a device or its host ran out of memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def sentence_of(error: BaseException) -> str:
    """A one-line message for an error."""
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
    """The exit status for an error, as in the command line."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return 128 + signal.SIGINT
    if isinstance(error, TrainingError):
        return 1
    return 2 if isinstance(error, DensirankError | OSError) else 1


def _expected(error: BaseException) -> bool:
    """Whether the message is sufficient, so that no traceback is printed."""
    told = isinstance(error, DensirankError | OSError | KeyboardInterrupt | SystemExit)
    return told or out_of_memory(error)


def _print_error(sentence: str) -> None:
    print(f"error: {sentence}", file=sys.stderr, flush=True)
