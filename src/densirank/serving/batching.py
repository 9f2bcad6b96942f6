"""Computes answers outside the event loop, in two threads.

The scores of one user read all item vectors from memory, and the scores of ten users also read them
once, so plain requests that wait at the same time are computed together; an idle server never waits
for a batch to fill. All other requests have a thread of their own and delay no plain request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from densirank.serving.engine import Engine, Plain, answer_together
from densirank.serving.errors import Problem

MAX_USERS = 32
"""Users of a batch: more save little time and make all of them wait."""


@dataclass(frozen=True, eq=False)
class _Job:
    engine: Engine
    plain: Plain
    answer: asyncio.Future[bytes]

    @property
    def batch(self) -> tuple[int, bool]:
        """Jobs with the same key can be computed together."""
        return id(self.engine), self.plain.filter_seen


class Compute:
    """Two threads and the requests that wait for them, at most ``max_waiting``."""

    def __init__(
        self, max_waiting: int, max_seconds: float, on_batch: Callable[[float], None]
    ) -> None:
        self._max_waiting, self._max_seconds = max_waiting, max_seconds
        self._on_batch = on_batch
        self._waiting = 0
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._batches = threading.Thread(target=self._work, name="densirank-batches", daemon=True)
        self._batches.start()
        self._others = ThreadPoolExecutor(1, thread_name_prefix="densirank-others")

    async def together(self, engine: Engine, plain: Plain) -> bytes:
        """The answer to a plain request, computed with other waiting ones."""
        self._admit()
        answer = self._loop.create_future()
        self._jobs.put(_Job(engine, plain, answer))
        return await self._bounded(answer)

    async def apart(self, work: Callable[[], bytes]) -> bytes:
        """The result of some work that is computed on its own."""
        self._admit()
        return await self._bounded(self._loop.run_in_executor(self._others, work))

    def close(self) -> None:
        """Finish the waiting work and end the threads."""
        self._jobs.put(None)
        self._batches.join()
        self._others.shutdown()

    def _admit(self) -> None:
        if self._waiting >= self._max_waiting:
            raise Problem(
                503, "overloaded", "too many requests are waiting; try again", {"Retry-After": "1"}
            )

    async def _bounded(self, answer: asyncio.Future[bytes]) -> bytes:
        self._waiting += 1
        try:
            async with asyncio.timeout(self._max_seconds):
                return await answer
        except TimeoutError:
            raise Problem(503, "timeout", "the answer took too long") from None
        finally:
            self._waiting -= 1

    def _work(self) -> None:
        """The thread of the batches: take waiting jobs, group them and compute each group."""
        while (first := self._jobs.get()) is not None:
            batch, users, closing = [first], first.plain.size, False
            while users < MAX_USERS and not closing:
                try:
                    job = self._jobs.get_nowait()
                except Empty:
                    break
                closing = job is None
                if job is not None:
                    batch.append(job)
                    users += job.plain.size
            for key in dict.fromkeys(job.batch for job in batch):
                self._compute([job for job in batch if job.batch == key])
            if closing:
                return

    def _compute(self, jobs: list[_Job]) -> None:
        wanted = [job for job in jobs if not job.answer.done()]  # the others timed out
        if not wanted:
            return
        self._on_batch(len(wanted))
        outcome: list[bytes] | Exception
        try:
            outcome = answer_together(wanted[0].engine, [job.plain for job in wanted])
        except Exception as error:  # raised again in the waiting requests
            outcome = error
        self._loop.call_soon_threadsafe(_hand_out, wanted, outcome)


def _hand_out(jobs: list[_Job], outcome: list[bytes] | Exception) -> None:
    """Give each waiting request its answer, or all of them the error."""
    for place, job in enumerate(jobs):
        if job.answer.done():
            continue
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome[place])
