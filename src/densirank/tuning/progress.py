"""A search as a person watches it: how many trials, the best so far, and how the next one goes."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from densirank.training.callbacks import Report
from densirank.tuning.trials import Trial


class SearchBar:
    """Two bars on a terminal, the trials and the training of one; elsewhere a line a trial."""

    def __init__(self, console: Console, trials: int | None) -> None:
        self._console = console
        self._best = 0.0
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._trials = self._progress.add_task("trials", total=trials, status="")
        self._training = self._progress.add_task("training", total=None, status="")

    def __enter__(self) -> SearchBar:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def report(self, report: Report) -> None:
        """Take a report of the trial that is being fitted: a callback of the trainer."""
        self._progress.update(self._training, completed=report.iteration, total=report.iterations)
        if report.validation is not None:
            self._progress.update(self._training, status=f"nDCG@20 {report.validation:.4f}")

    def trial(self, trial: Trial) -> None:
        """Take a trial that is done."""
        if trial.status == "finished":
            self._best = max(self._best, trial.ndcg)
        self._progress.update(
            self._trials, completed=trial.number, status=f"best nDCG@20 {self._best:.4f}"
        )
        self._progress.update(self._training, completed=0, status="")
        settings = ", ".join(f"{key} {value}" for key, value in trial.settings.items())
        self._console.print(
            f"trial {trial.number}: nDCG@20 {outcome(trial)}; {settings}; {trial.seconds:.1f} s",
            highlight=False,
            soft_wrap=True,
        )


def outcome(trial: Trial) -> str:
    """How well a trial did, and how it ended if not at its end."""
    if trial.status == "diverged":
        return "diverged"
    return f"{trial.ndcg:.4f}" + (", stopped early" if trial.status == "pruned" else "")
