"""Where answers are computed: beside the event loop, in a bounded number of threads.

The scores of one user read all item vectors from memory, and those of ten users read them once as
well, so plain requests that wait at the same time are computed together; an idle server never waits
for a batch to fill. Everything else has a thread of its own, so that it delays no plain request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from densirank.serving.answers import Plain, plain_answers
from densirank.serving.engine import Engine
from densirank.serving.errors import Problem

MOST_USERS = 32
"""Users computed together: more save little and make all of them wait."""


@dataclass(frozen=True, eq=False)
class _Job:
    engine: Engine
    plain: Plain
    answer: asyncio.Future[bytes]

    @property
    def alike(self) -> tuple[int, bool]:
        """Jobs that agree in it can be computed together."""
        return id(self.engine), self.plain.filter_seen


class Compute:
    """Two threads and the requests that wait for them, no more than ``max_waiting``."""

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
        """The answer to a plain request, computed with those that wait beside it."""
        self._admit()
        answer = self._loop.create_future()
        self._jobs.put(_Job(engine, plain, answer))
        return await self._bounded(answer)

    async def apart(self, work: Callable[[], bytes]) -> bytes:
        """The answer that some work comes to."""
        self._admit()
        return await self._bounded(self._loop.run_in_executor(self._others, work))

    def close(self) -> None:
        """Finish what was begun and let the threads go."""
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
            raise Problem(503, "timeout", "this took too long and was given up") from None
        finally:
            self._waiting -= 1

    def _work(self) -> None:
        """The thread of the batches: take what waits, compute what is alike, hand out."""
        while (first := self._jobs.get()) is not None:
            batch, users, closing = [first], first.plain.size, False
            while users < MOST_USERS and not closing:
                try:
                    job = self._jobs.get_nowait()
                except Empty:
                    break
                closing = job is None
                if job is not None:
                    batch.append(job)
                    users += job.plain.size
            for key in dict.fromkeys(job.alike for job in batch):
                self._compute([job for job in batch if job.alike == key])
            if closing:
                return

    def _compute(self, jobs: list[_Job]) -> None:
        wanted = [job for job in jobs if not job.answer.done()]  # others were given up
        if not wanted:
            return
        self._on_batch(len(wanted))
        outcome: list[bytes] | Exception
        try:
            outcome = plain_answers(wanted[0].engine, [job.plain for job in wanted])
        except Exception as error:  # it belongs to those who wait
            outcome = error
        self._loop.call_soon_threadsafe(_hand_out, wanted, outcome)


def _hand_out(jobs: list[_Job], outcome: list[bytes] | Exception) -> None:
    """Give every waiting request its answer, or all of them what went wrong."""
    for place, job in enumerate(jobs):
        if job.answer.done():
            continue
        if isinstance(outcome, Exception):
            job.answer.set_exception(outcome)
        else:
            job.answer.set_result(outcome[place])
