"""Whoever wants to know how a choice goes, while it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from densirank.automatic.attempts import Attempt
from densirank.training.callbacks import Report


class Watcher(Protocol):
    """Is told what is done, what has been tried, and how each training stands."""

    def doing(self, what: str) -> None: ...

    def tried(self, attempts: Sequence[Attempt]) -> None: ...

    def report(self, report: Report) -> None: ...


class Nobody:
    """Watches nothing."""

    def doing(self, what: str) -> None:
        """Something begins."""

    def tried(self, attempts: Sequence[Attempt]) -> None:
        """The last one is new."""

    def report(self, report: Report) -> None:
        """A callback of the trainer."""
