"""What surrounds the loop: reports for whoever wants to know how training goes, and Ctrl-C."""

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
    """How training stands after an iteration."""

    iteration: int
    iterations: int
    seconds: float
    loss: float
    validation: float | None = None
    """nDCG@20 on the validation data, in iterations that were validated."""


Callback = Callable[[Report], None]


@dataclass(frozen=True)
class Snapshots:
    """Looks at the vectors after some iterations; the clock of the training stands meanwhile.

    What is seen changes nothing: training neither stops nor keeps an iterate because of it.
    """

    after: frozenset[int]
    look: Callable[[int, float, Tensor, Tensor], None]
    """Takes the iteration, the seconds of training so far, the user and the item vectors."""


class JsonLines:
    """Appends every report to a file, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, report: Report) -> None:
        with self._path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(asdict(report)) + "\n")


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
