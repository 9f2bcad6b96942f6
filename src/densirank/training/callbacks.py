"""Callbacks of the training loop: reports, snapshots, and the handling of Ctrl-C."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Report:
    """The state of training after an iteration."""

    iteration: int
    iterations: int
    seconds: float
    loss: float
    validation: float | None = None
    """nDCG@20 on the validation data; None for iterations without validation."""


Callback = Callable[[Report], None]


@dataclass(frozen=True)
class Snapshots:
    """Observes the vectors after some iterations; the training clock is paused during the call.

    Observing has no effect on training: it neither stops early nor selects an iterate.
    """

    after: frozenset[int]
    look: Callable[[int, float, Tensor, Tensor], None]
    """Called with the iteration, the training seconds so far, user vectors and item vectors."""


class JsonLines:
    """Appends every report to a file, one JSON object per line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, report: Report) -> None:
        with self._path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(report)) + "\n")


class Interruption:
    """Context manager that records the first Ctrl-C; the second one raises KeyboardInterrupt.

    An interrupted step would leave vectors that no complete run produces. The loop therefore checks
    ``requested`` after each step and stops there, in a state that can be saved and resumed. An
    inner interruption notifies the outer one, so that both stop.
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
