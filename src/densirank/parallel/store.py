"""The key-value store of a run, with a limit on every wait.

``torch.distributed``'s store waits for an answer for as long as the kernel keeps the connection:
a quarter of an hour once a cable is cut, in which not even signals are handled. Here a thread of
its own waits, so that the caller goes on when the limit is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import Any

import torch.distributed as dist

Answer = tuple[Any, Exception | None]


class RunStore:
    """A connection to the store of a run; ``dist.DistError`` where it does not answer in time.

    A connection on which an answer is overdue is ``lost``: all else would wait behind that answer.
    """

    def __init__(self, store: Any, limit: float) -> None:
        """``limit`` is the number of seconds that an answer may take, as the store knows too."""
        self.raw, self.limit = store, limit
        self.lost = False

    def named(self, name: str) -> RunStore:
        """A connection of its own, for one that waits answers no second question."""
        connection = self._ask(self.raw.clone)
        return RunStore(dist.PrefixStore(name, connection), self.limit)  # type: ignore[attr-defined]

    def set(self, key: str, value: str, within: float | None = None) -> None:
        self._ask(lambda: self.raw.set(key, value), within)

    def add(self, key: str, amount: int, within: float | None = None) -> int:
        """The number under a key, after adding to it."""
        return int(self._ask(lambda: self.raw.add(key, amount), within))

    def get(self, key: str) -> str:
        """The text under a key, once there is one."""
        return bytes(self._ask(lambda: self.raw.get(key), self.limit + 1)).decode()

    def get_all(self, keys: list[str]) -> list[str]:
        """The texts under keys, once there are all."""
        texts = self._ask(lambda: self.raw.multi_get(keys), self.limit + 1)
        return [bytes(text).decode() for text in texts]

    def has(self, key: str) -> bool:
        """Whether there is something under a key by now."""
        return bool(self._ask(lambda: self.raw.check([key])))

    def first(self, key: str, value: str, within: float) -> str:
        """The text under a key: this one, if there was none."""
        return bytes(self._ask(lambda: self.raw.compare_set(key, "", value), within)).decode()

    def wait(self, key: str, within: float) -> None:
        """Until there is something under a key."""
        self._ask(lambda: self.raw.wait([key], timedelta(seconds=within)), within + 1)

    def _ask(self, question: Callable[[], Any], within: float | None = None) -> Any:
        limit = self.limit if within is None else within
        if self.lost:
            raise dist.DistNetworkError("the store did not answer before")
        answers: SimpleQueue[Answer] = SimpleQueue()
        threading.Thread(target=_answer, args=(question, answers), daemon=True).start()
        try:
            answer, error = answers.get(timeout=limit)
        except Empty:
            self.lost = True
            raise dist.DistNetworkError(f"the store did not answer for {limit:g} s") from None
        if error is not None:
            raise error
        return answer


def _answer(question: Callable[[], Any], answers: SimpleQueue[Answer]) -> None:
    try:
        answers.put((question(), None))
    except Exception as error:  # the caller's, whatever it is
        answers.put((None, error))
