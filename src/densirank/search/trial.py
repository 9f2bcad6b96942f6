"""A trial: settings, the fit they gave, and how well it ranked the held-out items."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, Literal, cast, get_args

from densirank.data.interactions import Interactions
from densirank.dimensions import Setting
from densirank.errors import TrainingError
from densirank.fit import VALIDATION_K
from densirank.methods import Method
from densirank.ranker import Ranker
from densirank.settings import TrainingSettings
from densirank.training.callbacks import Callback, Report

Status = Literal["finished", "pruned", "diverged"]

NDCG = f"validation_ndcg@{VALIDATION_K}"
"""The key of the metric in a record."""
FEWEST_FINISHED = 4
"""Finished trials needed for pruning: a median over fewer is too noisy."""
SPARED_SHARE = 0.3
"""Initial share of the schedule without pruning: a high learning rate starts badly."""


@dataclass(frozen=True)
class Trial:
    """One fit with proposed settings, and how well it ranked the held-out items."""

    number: int
    """Counted from 1."""
    settings: dict[str, Any]
    status: Status
    ndcg: float
    """Validation nDCG@20. A pruned trial has its best so far, a diverged one 0."""
    best_iteration: int | None = None
    """Where validation was best; None if the method is not iterative."""
    iterations: int | None = None
    """The number of iterations run."""
    seconds: float = 0.0
    curve: tuple[tuple[float, float], ...] = ()
    """(share of the schedule, validation nDCG@20) at each validation."""
    method: str = ""

    def best_until(self, share: float) -> float | None:
        """The best validation within this share of the schedule, if there was any."""
        return max((ndcg for at, ndcg in self.curve if at <= share), default=None)

    def to_json(self) -> dict[str, Any]:
        plain = asdict(self) | {"curve": [list(point) for point in self.curve]}
        return {NDCG if key == "ndcg" else key: value for key, value in plain.items()}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Trial:
        """The inverse of :meth:`to_json`; raises KeyError, TypeError or ValueError."""
        if plain["status"] not in get_args(Status):
            raise ValueError(f"there is no status {plain['status']!r}")
        return cls(
            number=int(plain["number"]),
            settings=dict(plain["settings"]),
            status=cast(Status, plain["status"]),
            ndcg=float(plain[NDCG]),
            best_iteration=plain["best_iteration"],
            iterations=plain["iterations"],
            seconds=float(plain["seconds"]),
            curve=tuple((float(share), float(ndcg)) for share, ndcg in plain["curve"]),
            method=str(plain.get("method", "")),  # missing in older records
        )

    def __str__(self) -> str:
        return f"{self.method}: " + ", ".join(f"{k} {v}" for k, v in self.settings.items())


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The finished trial with the highest validation metric, the first among equals."""
    finished = (trial for trial in trials if trial.status == "finished")
    return max(finished, key=lambda trial: trial.ndcg, default=None)


class Behind(Exception):
    """Raised by a callback to stop a training that is clearly behind."""


class MedianRule:
    """A training callback that records the validation curve and stops a trial by it.

    A trial is behind if the best it has reached is below the median of what the finished trials
    had reached at the same share of their schedules (Golovin et al. 2017, Section 3.2.2). It is
    never stopped at the end of its schedule, where nothing is left to save.
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


@dataclass(frozen=True)
class Fits:
    """Makes trials by fitting: all to the same data with the same seed and held-out items."""

    method: Method
    fixed: dict[str, Any]
    train: Interactions
    held_out: Interactions
    seed: int
    device: str
    precision: str
    callbacks: Sequence[Callback] = ()

    def __call__(self, number: int, setting: Setting, earlier: Sequence[Trial]) -> Trial:
        """Fit with these settings; stop early if the fit falls behind the earlier trials."""
        chosen = self.fixed | setting
        settings = self.method.settings(**chosen)
        judged_at_end = isinstance(settings, TrainingSettings) and settings.decay > 0
        if judged_at_end:  # no early stopping
            chosen |= {"patience": settings.iterations}
        ranker = Ranker(
            self.method.name,
            seed=self.seed,
            device=self.device,
            precision=self.precision,
            **chosen,
        )
        rule = MedianRule(earlier)
        status: Status = "finished"
        ndcg = 0.0
        started = time.perf_counter()
        try:
            ranker.fit(self.train, self.held_out, callbacks=[*self.callbacks, rule])
        except Behind:
            status, ndcg = "pruned", rule.best
        except TrainingError:
            status = "diverged"
        else:
            if ranker.training_.get("interrupted"):
                raise KeyboardInterrupt
            if self.method.risk is None:
                ndcg = float(ranker.evaluate(self.held_out, VALIDATION_K)[f"ndcg@{VALIDATION_K}"])
            else:
                ndcg = rule.curve[-1][1] if judged_at_end else rule.best
        return Trial(
            number=number,
            settings=setting,
            status=status,
            ndcg=ndcg,
            best_iteration=rule.best_iteration or None,
            iterations=rule.iterations or None,
            seconds=time.perf_counter() - started,
            curve=tuple(rule.curve),
            method=self.method.name,
        )
