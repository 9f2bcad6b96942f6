"""Ctrl-C between two steps instead of inside one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class Interruption:
    """While active, the first Ctrl-C is only noted; the second one raises as usual.

    A step that is cut in half leaves vectors that no run would have produced. So the loop asks
    ``requested`` after each step and stops there, with a state that can be saved and resumed.
    One inside another passes on what it notes: both have to stop.
    """

    def __init__(self) -> None:
        self.requested = False
        self._previous: Any = None

    def __enter__(self) -> Interruption:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _note(self, signum: int, frame: FrameType | None) -> None:
        self.requested = True
        outer = getattr(self._previous, "__self__", None)
        self._restore()
        if isinstance(outer, Interruption):
            outer._note(signum, frame)

    def _restore(self) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None
