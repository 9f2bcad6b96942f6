"""The key-value store of a run, with a timeout on every request.

The store of ``torch.distributed`` waits for an answer as long as the kernel keeps the connection:
fifteen minutes after a network link is cut, during which signals are not handled. Here a separate
thread waits, so the caller continues after the timeout.
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
    """A connection to the store of a run; raises ``dist.DistError`` on a timeout.

    After a timeout the connection is ``lost``: other requests would wait behind the pending one.
    """

    def __init__(self, store: Any, limit: float) -> None:
        """``limit`` is the timeout in seconds, which the store uses as well."""
        self.raw, self.limit = store, limit
        self.lost = False

    def named(self, name: str) -> RunStore:
        """A separate connection, because a connection handles one request at a time."""
        connection = self._ask(self.raw.clone)
        return RunStore(dist.PrefixStore(name, connection), self.limit)  # type: ignore[attr-defined]

    def set(self, key: str, value: str, within: float | None = None) -> None:
        self._ask(lambda: self.raw.set(key, value), within)

    def add(self, key: str, amount: int, within: float | None = None) -> int:
        """Add to the number under a key and return the sum."""
        return int(self._ask(lambda: self.raw.add(key, amount), within))

    def get(self, key: str) -> str:
        """Wait for a key and return its text."""
        return bytes(self._ask(lambda: self.raw.get(key), self.limit + 1)).decode()

    def get_all(self, keys: list[str]) -> list[str]:
        """Wait for all keys and return their texts."""
        texts = self._ask(lambda: self.raw.multi_get(keys), self.limit + 1)
        return [bytes(text).decode() for text in texts]

    def has(self, key: str) -> bool:
        """Whether a key is set."""
        return bool(self._ask(lambda: self.raw.check([key])))

    def first(self, key: str, value: str, within: float) -> str:
        """Set a key unless it is set already, and return its text."""
        return bytes(self._ask(lambda: self.raw.compare_set(key, "", value), within)).decode()

    def wait(self, key: str, within: float) -> None:
        """Wait for a key."""
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
    except Exception as error:  # passed on to the caller
        answers.put((None, error))
