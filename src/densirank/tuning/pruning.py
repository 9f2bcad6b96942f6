"""Stopping a trial that is clearly behind, from the reports of its training alone."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from densirank.training.callbacks import Report
from densirank.tuning.trials import Trial

FEWEST_FINISHED = 4
"""A median of fewer finished trials says little."""
SPARED_SHARE = 0.3
"""A high learning rate looks bad early and may be good late: so much of a schedule is spared."""


class Behind(Exception):
    """Raised out of a training that is not worth its end."""


class MedianRule:
    """A callback of the trainer that keeps the validation curve and stops a trial by it.

    A trial is behind if the best it has reached is below the median of what the finished trials
    had reached at the same share of their schedules (Golovin et al. 2017, Section 3.2.2). The
    end of a schedule is never cut off: there is nothing left to save.
    """

    def __init__(self, trials: Sequence[Trial]) -> None:
        self._finished = [trial for trial in trials if trial.status == "finished"]
        self.curve: list[tuple[float, float]] = []
        self.best = 0.0
        self.best_iteration = 0
        self.iterations = 0

    def __call__(self, report: Report) -> None:
        self.iterations = report.iteration
        if report.validation is None:
            return
        share = report.iteration / report.iterations
        self.curve.append((share, report.validation))
        if not self.best_iteration or report.validation > self.best:
            self.best, self.best_iteration = report.validation, report.iteration
        if SPARED_SHARE <= share < 1 and self._behind(share):
            raise Behind

    def _behind(self, share: float) -> bool:
        reached = [trial.best_until(share) for trial in self._finished]
        known = [best for best in reached if best is not None]
        return len(known) >= FEWEST_FINISHED and self.best < median(known)
