"""What happens beside the loop: anyone who wants to know how training goes gets reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

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
