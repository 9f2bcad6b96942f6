"""Attempts within a time: popularity, the filter alone, then trained vectors from a start on up."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any, cast

from densirank.automatic.attempts import Attempt
from densirank.automatic.budget import Clock
from densirank.automatic.filtering import (
    FIRST,
    NOTHING,
    FilterChoice,
    FilterUse,
    seconds_at_most,
)
from densirank.automatic.judging import Judge, popularity_scorer
from densirank.automatic.sizing import ENDLESS, Cost, Plan, Size, plan_for, sizes_for
from densirank.automatic.starting import largest_dim, space_for, start_for
from densirank.automatic.watching import Watcher
from densirank.data.interactions import Interactions
from densirank.device import Hardware, resolve_hardware
from densirank.dimensions import Setting
from densirank.errors import TrainingError
from densirank.fit import FitTask, Fitted, fit_scorer
from densirank.methods import METHODS
from densirank.scores import VectorScorer
from densirank.settings import Settings
from densirank.training.callbacks import Interruption, Report, Snapshots
from densirank.tuning.grid import grid_walk
from densirank.tuning.trials import Status, Trial

METHOD = METHODS["densirank"]
"""What is trained."""
MOST = 60
"""Trained attempts: a search of small data ends here, if not before."""
FOR_UNTRAINED = 0.25
"""Share of the budget that may go by before training is tried."""
FOR_KINDS = 0.4
"""The same where another kind of filter can be built until then."""
A_PAIR = 1e-6
"""Seconds for each pair, user and item without which training is not even begun."""
VERDICTS = 5
"""Looks at the held-out items that choosing a filter takes, about."""
SPARE = 1.15
"""How much longer than planned the last fit may take: it has all the data."""


class OutOfTime(Exception):
    """An attempt that takes longer than planned, and would leave too little for the last fit."""


class Trials:
    """The attempts made so far, and what it takes to make another."""

    def __init__(
        self,
        whole: Interactions,
        judge: Judge,
        clock: Clock,
        interruption: Interruption,
        watcher: Watcher,
        run: tuple[int, str, str],
    ) -> None:
        """``run`` is the seed, the device and the precision."""
        self._whole, self._judge, self._clock = whole, judge, clock
        self._interruption, self._watcher = interruption, watcher
        self._seed, self._device, self._precision = run
        self._filter: FilterChoice | None = None
        self._beside: FilterUse = NOTHING
        self._cold = True
        self.cost = Cost(0.0, 0.0)
        self.attempts: list[Attempt] = []

    def make(self) -> None:
        """Make all attempts that there is time for."""
        self._untrained()
        something = len(self._whole) + self._whole.n_users + self._whole.n_items
        if self._go_on(A_PAIR * something):
            self._trained()

    @property
    def seconds_for_filter(self) -> float:
        """What the filter takes in the last fit."""
        if self._filter is None:
            return 0.0
        return self._filter.seconds_for(self._whole, self._beside.kind)

    def _go_on(self, seconds: float = 0.0) -> bool:
        """Whether there is time for something of so many seconds, and nobody said to stop."""
        return not self._interruption.requested and self._clock.left > seconds

    def _keep(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        self._watcher.tried(self.attempts)

    # --- untrained ---------------------------------------------------------------------------

    def _untrained(self) -> None:
        train, started = self._judge.train, time.perf_counter()
        device = self._hardware(1).device
        by_popularity = popularity_scorer(train, device)
        ndcg = self._judge(by_popularity)
        self._keep(Attempt("popularity", NOTHING.settings, ndcg, time.perf_counter() - started))
        if not self._go_on(2 * seconds_at_most(self._whole, device)):
            return
        self._watcher.doing("the item filter")
        started = time.perf_counter()
        self._filter = FilterChoice(self._judge, device)
        until, until_built = (share * self._clock.budget for share in (FOR_UNTRAINED, FOR_KINDS))
        how, ndcg = self._filter.alone(
            by_popularity,
            lambda: self._go_on() and self._clock.elapsed < until,
            lambda seconds: (
                self._go_on(2 * seconds) and self._clock.elapsed + seconds < until_built
            ),
        )
        self._keep(Attempt("popularity", how.settings, ndcg, time.perf_counter() - started))
        self._beside = replace(how, weight=FIRST)

    # --- trained -----------------------------------------------------------------------------

    def _trained(self) -> None:
        """From a start by the data to better neighbours, one setting at a time."""
        self._watcher.doing("what a step takes here")
        data = self._judge.train
        start = start_for(data, METHOD)
        plan = plan_for(
            data,
            sizes_for(data, largest_dim(data)),
            lambda size: self._measured(start, size),
            lambda: self._clock.left - self.seconds_for_filter - self._seconds_for_verdicts,
        )
        self.cost = plan.cost
        start |= plan.settings
        space = space_for(data, start)
        propose = grid_walk(space, start)
        trials: list[Trial] = []
        while len(trials) < MOST:
            point = propose(trials)
            if point is None or not self._go_on(self._seconds_for(point, plan) if trials else 0.0):
                return
            trial = self._try(len(trials) + 1, start, point)
            if trial is None:
                return
            trials.append(trial)

    def _seconds_for(self, point: Setting, plan: Plan) -> float:
        """What must be left to try a point and still make the last fit."""
        larger = cast(int, point["dim"]) / plan.size.dim
        fits = larger * self.cost.of(plan.iterations) + self._seconds_for_last(plan.iterations)
        return fits + self._seconds_for_verdicts

    @property
    def _seconds_for_verdicts(self) -> float:
        """What it takes to judge one attempt, with its filter."""
        if self._filter is None:
            return self._judge.seconds
        return VERDICTS * self._filter.verdict_seconds

    def _seconds_for_last(self, iterations: int) -> float:
        return SPARE * self.cost.of(iterations) + self.seconds_for_filter

    def _try(self, number: int, start: dict[str, Any], point: Setting) -> Trial | None:
        """Fit the vectors, then choose the filter beside them; None if it had to be stopped."""
        settings = METHOD.settings(**(start | point | NOTHING.settings))
        self._watcher.doing(f"attempt {len(self.attempts) + 1}")
        started = time.perf_counter()
        reserve = self._seconds_for_last(settings.iterations) if number > 1 else -math.inf
        status: Status = "finished"
        how, ndcg = NOTHING, 0.0
        try:
            fitted = self._fit(settings, must_be_left=reserve)
        except OutOfTime:
            return None
        except TrainingError:
            status = "diverged"
        else:
            if fitted.training["interrupted"]:
                return None
            if settings.dim == start["dim"]:
                trained = fitted.training["seconds"]
                taken = time.perf_counter() - started
                self.cost = Cost(max(0.0, taken - trained), trained / settings.iterations)
            how, ndcg = self._with_filter(fitted.scorer, settings.iterations)
        seconds = time.perf_counter() - started
        keys = (*point, "users_per_batch", "candidates", "iterations", "learning_rate")
        own = {key: getattr(settings, key) for key in keys} | how.settings
        self._keep(Attempt(METHOD.name, own, ndcg, seconds))
        steps = settings.iterations
        return Trial(number, point, status, ndcg, steps, steps, seconds)

    def _with_filter(self, vectors: VectorScorer, iterations: int) -> tuple[FilterUse, float]:
        """The best filter beside trained vectors, sought from where it was best before."""
        if self._filter is None:
            return NOTHING, self._judge(vectors)
        self._watcher.doing("the filter beside it")
        enough = self._seconds_for_last(iterations)
        how, ndcg = self._filter.beside(
            vectors,
            self._beside,
            lambda: self._go_on(enough),
            recency_too=not any(attempt.method == METHOD.name for attempt in self.attempts),
        )
        if ndcg > max((a.ndcg for a in self.attempts if a.method == METHOD.name), default=0.0):
            self._beside = how
        return how, ndcg

    def _fit(
        self,
        settings: Settings,
        snapshots: Snapshots | None = None,
        must_be_left: float = -math.inf,
    ) -> Fitted:
        def in_time(report: Report) -> None:
            if self._clock.left < must_be_left:
                raise OutOfTime

        task = FitTask(
            METHOD,
            settings,
            self._seed,
            self._hardware(settings.dim),
            self._judge.train,
            callbacks=[self._watcher.report, in_time] if snapshots is None else [],
            snapshots=snapshots,
        )
        return fit_scorer(task)

    def _measured(self, start: dict[str, Any], size: Size) -> Cost:
        """By three steps, the first of which makes what is made once a fit."""
        moments: list[float] = []

        def look(iteration: int, seconds: float, *vectors: object) -> None:
            moments.append(seconds)

        steps = Plan(size, Cost(0, 0), 3).settings
        settings = METHOD.settings(**(start | NOTHING.settings | steps))
        if self._cold:  # what is made or loaded once a process
            self._fit(replace(settings, iterations=1), Snapshots(frozenset(), look))
            self._cold = False
        started = time.perf_counter()
        self._fit(settings, Snapshots(frozenset({1, 3}), look))
        taken = time.perf_counter() - started
        if len(moments) < 2:  # interrupted
            return ENDLESS
        return Cost(max(0.0, taken - moments[1]), (moments[1] - moments[0]) / 2)

    def _hardware(self, dim: int) -> Hardware:
        return resolve_hardware(self._device, self._precision, dim)
