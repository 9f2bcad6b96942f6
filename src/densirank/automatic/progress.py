"""A choice as a person watches it, and what it came to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import TimeElapsedColumn
from rich.table import Table

from densirank.automatic.attempts import Attempt, best_of
from densirank.automatic.budget import Clock
from densirank.progress import Bars
from densirank.training.callbacks import Report

SHOWN = 5
"""Attempts in the table at the end."""
OF_INTEREST = (
    "dim",
    "iterations",
    "max_norm",
    "l2",
    "base_exponent",
    "recency",
    "filter_weight",
    "filter_recency",
)
"""Settings in the table; the record has all."""


class BudgetBar(Bars):
    """A bar of the seconds on a terminal, with what is being done; elsewhere a line an attempt."""

    def __init__(self, console: Console, seconds: float) -> None:
        super().__init__(console, TimeElapsedColumn())
        self._clock = Clock(seconds)
        self._doing = self._best = ""
        self._task = self._progress.add_task("seconds", total=math.ceil(seconds), status="")

    def doing(self, what: str) -> None:
        """Something begins."""
        self._doing = what
        self._show()

    def tried(self, attempts: Sequence[Attempt]) -> None:
        """The last one is new."""
        new = attempts[-1]
        self._best = f"  best nDCG@20 {best_of(attempts).ndcg:.4f}"
        self._show()
        if not self._console.is_terminal:
            self._console.print(
                f"attempt {len(attempts)}: nDCG@20 {new.ndcg:.4f} in {new.seconds:.1f} s; {new}",
                highlight=False,
                soft_wrap=True,
            )

    def report(self, report: Report) -> None:
        """A callback of the trainer."""
        self._show(f", iteration {report.iteration}/{report.iterations}")

    def _show(self, how_far: str = "") -> None:
        elapsed = min(math.ceil(self._clock.budget), round(self._clock.elapsed))
        status = f"{self._doing}{how_far}{self._best}"
        self._progress.update(self._task, completed=elapsed, status=status)


def table_of(record: Mapping[str, Any]) -> Table:
    """The best attempts of ``training_["automatic"]``, with what tells them apart."""
    attempts = record["attempts"]
    ranked = sorted(attempts, key=lambda attempt: -attempt["validation_ndcg@20"])[:SHOWN]
    table = Table("nDCG@20", "seconds", "what", box=SIMPLE, show_edge=False)
    for attempt in ranked:
        own = attempt["settings"]
        chosen = (f"{key} {own[key]:g}" for key in OF_INTEREST if key in own)
        table.add_row(
            f"{attempt['validation_ndcg@20']:.4f}",
            f"{attempt['seconds']:.1f}",
            f"{attempt['method']}: {', '.join(chosen)}",
        )
    return table


def chosen_sentence(record: Mapping[str, Any]) -> str:
    """What was chosen, of how much, by what."""
    attempts = record["attempts"]
    if not attempts:
        return (
            "Nobody has two items, so nothing could be held out to choose by: everybody gets what "
            "is popular."
        )
    best = attempts[record["chosen"]]
    cut = "The search was interrupted. " if record["search_interrupted"] else ""
    many = "attempt" if len(attempts) == 1 else "attempts"
    beside = " with the item filter" if best["settings"].get("filter_weight") else ""
    return (
        f"{cut}Best of {len(attempts)} {many}: {best['method']}{beside}, nDCG@20 "
        f"{best['validation_ndcg@20']:.4f} on the held-out items of "
        f"{record['validation_users']:,} users; fitted to all interactions, "
        f"{record['seconds']:.0f} s of {record['budget_seconds']:g} s in all."
    )
