"""Answers are computed beside the event loop, within bounds."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import pytest

from densirank.serving import batching as computing
from densirank.serving.batching import Compute
from densirank.serving.engine import Engine, Plain
from densirank.serving.errors import Problem


@pytest.fixture(scope="module")
def engine(folder: Path) -> Engine:
    return Engine.load(folder, None)


def plain(user: int, k: int = 3) -> Plain:
    return Plain(np.array([user]), k, filter_seen=True)


def within(
    story: Callable[[Compute], Awaitable[None]], max_waiting: int = 100, max_seconds: float = 10
) -> list[float]:
    """Run a story with a place to compute; the sizes of the batches it came to."""
    batches: list[float] = []

    async def run() -> None:
        compute = Compute(max_waiting, max_seconds, batches.append)
        try:
            await story(compute)
        finally:
            compute.close()

    asyncio.run(run())
    return batches


def test_what_waits_together_is_computed_together(engine: Engine) -> None:
    async def story(compute: Compute) -> None:
        asked = [compute.together(engine, plain(user)) for user in range(20)]
        for user, answer in enumerate(await asyncio.gather(*asked)):
            (result,) = json.loads(answer)["results"]
            assert result["user"] == engine.data.user_ids[user]

    batches = within(story)
    assert sum(batches) == 20
    assert len(batches) < 20


def test_no_batch_is_larger_than_it_should_be(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computing, "MAX_USERS", 4)

    async def story(compute: Compute) -> None:
        await asyncio.gather(*(compute.together(engine, plain(user % 20)) for user in range(30)))

    assert max(within(story)) <= 4


def test_too_many_requests_are_turned_away_and_the_others_answered(engine: Engine) -> None:
    async def story(compute: Compute) -> None:
        asked = [asyncio.create_task(compute.together(engine, plain(0))) for _ in range(5)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        away = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
        assert [problem.status for problem in away] == [503, 503]
        assert {problem.code for problem in away} == {"overloaded"}
        assert sum(isinstance(outcome, bytes) for outcome in outcomes) == 3
        assert isinstance(await compute.together(engine, plain(0)), bytes)

    within(story, max_waiting=3)


def test_what_takes_too_long_is_given_up(engine: Engine) -> None:
    async def story(compute: Compute) -> None:
        ended = threading.Event()

        def slow() -> bytes:
            ended.wait(10)
            return b""

        with pytest.raises(Problem, match="too long"):
            await compute.apart(slow)
        compute._max_seconds = 60  # the answer to come has all the time it needs
        assert isinstance(await compute.together(engine, plain(0)), bytes)
        ended.set()

    within(story, max_seconds=0.01)


def test_what_goes_wrong_in_a_batch_is_told_to_those_in_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(compute: Compute) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(computing, "answer_together", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await compute.together(engine, plain(0))
        assert isinstance(await compute.together(engine, plain(0)), bytes)

    within(story)
