"""A search as a person watches it: how many trials, the best so far, and how the next one goes."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.progress import TimeElapsedColumn

from densirank.progress import Bars
from densirank.training.callbacks import Report
from densirank.tuning.trials import Trial, best_of


class SearchBar(Bars):
    """Two bars on a terminal, the trials and the training of one; elsewhere a line a trial."""

    def __init__(self, console: Console, trials: int | None) -> None:
        super().__init__(console, TimeElapsedColumn())
        self._trials = self._progress.add_task("trials", total=trials, status="")
        self._training = self._progress.add_task("training", total=None, status="")

    def report(self, report: Report) -> None:
        """Take a report of the trial that is being fitted: a callback of the trainer."""
        self._progress.update(self._training, completed=report.iteration, total=report.iterations)
        if report.validation is not None:
            self._progress.update(self._training, status=f"nDCG@20 {report.validation:.4f}")

    def trial(self, trials: Sequence[Trial]) -> None:
        """Take the trials so far, of which the last one is new."""
        trial, best = trials[-1], best_of(trials)
        status = "" if best is None else f"best nDCG@20 {best.ndcg:.4f}"
        self._progress.update(self._trials, completed=len(trials), status=status)
        self._progress.update(self._training, completed=0, status="")
        settings = ", ".join(f"{key} {value}" for key, value in trial.settings.items())
        self._console.print(
            f"trial {trial.number}: {_outcome(trial)}; {settings}; {trial.seconds:.1f} s",
            highlight=False,
            soft_wrap=True,
        )


def _outcome(trial: Trial) -> str:
    """How well a trial did, and how it ended if not at its end."""
    if trial.status == "diverged":
        return "diverged"
    return f"nDCG@20 {trial.ndcg:.4f}" + (", stopped early" if trial.status == "pruned" else "")
