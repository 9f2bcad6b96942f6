"""``densirank.autofit``: choose a method and settings on held-out items within a time budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

from densirank.data.interactions import Interactions
from densirank.data.reading import as_interactions
from densirank.data.splitting import Split, validation_split
from densirank.device import resolve_hardware
from densirank.dimensions import Setting
from densirank.errors import TrainingError
from densirank.fit import FitTask, Fitted, fit_scorer
from densirank.methods import METHODS
from densirank.ranker import Ranker, checked_seed
from densirank.scores import VectorScorer
from densirank.search.filter_choice import FIRST_WEIGHT, NO_FILTER, FilterChoice, seconds_at_most
from densirank.search.judge import Judge, popularity_scorer
from densirank.search.planning import (
    ENDLESS,
    Clock,
    Cost,
    Plan,
    Size,
    largest_dim,
    plan_for,
    seconds_of,
    sizes_for,
    space_around,
    start_for,
)
from densirank.search.propose import run_trials, walk
from densirank.search.trial import Status, Trial, best_of
from densirank.settings import Settings
from densirank.training.callbacks import Callback, Interruption, Report, Snapshots

METHOD = METHODS["densirank"]
"""The trained method."""
UNTRAINED = "popularity"
"""The method that needs no training."""
HELD_OUT = 0.2
VERDICT_SHARE = 0.015
"""Share of the budget that evaluating a trial once may take."""
MOST = 60
"""Limit on trained trials, which a search on small data can reach."""
FOR_UNTRAINED = 0.25
"""Share of the budget that may pass before training starts."""
FOR_KINDS = 0.4
"""The same if a second kind of filter can be built in that time."""
A_PAIR = 1e-6
"""Seconds per pair, user and item that must be left for training to start at all."""
VERDICTS = 5
"""Approximate number of evaluations to choose a filter."""
SPARE = 1.15
"""Factor on the planned time of the final fit, which uses all data."""


class Watcher(Protocol):
    """Receives progress: the current activity, the trials so far, and training reports."""

    def doing(self, what: str) -> None: ...

    def tried(self, trials: Sequence[Trial]) -> None: ...

    def report(self, report: Report) -> None: ...


class Nobody:
    """A watcher that ignores all progress."""

    def doing(self, what: str) -> None:
        """Called when an activity starts."""

    def tried(self, trials: Sequence[Trial]) -> None:
        """Called after each trial with all trials so far."""

    def report(self, report: Report) -> None:
        """Called with each training report."""


def autofit(
    data: Any,
    budget: str | float = "60s",
    *,
    valid: Any = None,
    valid_split: Literal["last", "random"] | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    callbacks: Sequence[Callback] = (),
    watcher: Watcher | None = None,
) -> Ranker:
    """Choose the method and settings on held-out items within a time budget; fit all ``data``.

    The search evaluates popularity, the item–item filter and trained vectors of a size that fits
    the budget, then improves the settings by a coordinate walk. The best trial on the held-out
    items is fitted to all data. ``training_["automatic"]`` of the ranker records all trials.

    The choice depends on measured times and can differ between machines. Ctrl-C ends the search and
    fits the best trial so far.

    Parameters
    ----------
    data
        One set of interactions, or anything :func:`densirank.read` takes.
    budget
        Text such as ``"2m"``, or a number of seconds. It is kept within about a fifth, not counting
        the time to read the data.
    valid, valid_split
        The share of each user's items to hold out (default: a fifth) and which, ``"last"`` (the
        default where an order is known) or ``"random"``; or ``valid`` is held-out interactions.
    seed, device, precision
        As for :class:`densirank.Ranker`.
    callbacks, watcher
        ``callbacks`` get the reports of the last fit, ``watcher`` is told everything on the way.

    Returns
    -------
    Ranker
        Fitted to all of ``data``.

    Raises
    ------
    InputError
        A budget that is not a time, or data that cannot be used.

    Examples
    --------
    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> ranker = autofit(log[1:], "1s", device="cpu")
    >>> ranker.recommend(0, k=1)["item_id"].to_list()
    [0]
    """
    seconds = seconds_of(budget)
    checked_seed(seed)
    where = resolve_hardware(device, precision, dim=1).device
    whole = as_interactions(data)
    clock = Clock(seconds)
    watcher = watcher or Nobody()
    parts = _split(whole, valid, valid_split, seed)
    search: Search | None = None
    with Interruption() as interruption:
        if parts is not None:
            judge = Judge.of(*parts, where, VERDICT_SHARE * seconds)
            run = (seed, device, precision)
            search = Search(whole, judge, clock, interruption, watcher, *run)
            search.run()
    trials = [] if search is None else search.trials
    best = best_of(trials)
    method = UNTRAINED if best is None else best.method
    settings = {} if search is None or best is None else search.affordable(best)
    watcher.doing(f"final fit, {method}")
    counting = "auto" if method == UNTRAINED else precision  # popularity has no kernels
    ranker = Ranker(method, seed=seed, device=device, precision=counting, **settings)
    ranker.fit(whole, callbacks=[watcher.report, *callbacks])
    ranker.training_["automatic"] = {
        "budget_seconds": clock.budget,
        "seconds": round(clock.elapsed, 3),
        "validation_users": 0 if search is None else len(search.judge.users),
        "search_interrupted": interruption.requested,
        "chosen": None if best is None else trials.index(best),
        "attempts": [trial.to_json() for trial in trials],
    }
    return ranker


def _split(
    whole: Interactions, valid: Any, how: Literal["last", "random"] | None, seed: int
) -> Split | None:
    """(training part, held-out items), or None if nothing can be held out."""
    if valid is not None and not isinstance(valid, float):
        return whole, as_interactions(valid)
    if whole.user_counts.max() < 2:
        return None
    return validation_split(whole, valid or HELD_OUT, how, seed)


class OutOfTime(Exception):
    """Raised if another trial, or the rest of one, leaves too little time for the final fit."""


@dataclass
class Search:
    """Trials within a budget: popularity, popularity with the filter, then trained vectors."""

    whole: Interactions
    judge: Judge
    clock: Clock
    interruption: Interruption
    watcher: Watcher
    seed: int
    device: str
    precision: str
    trials: list[Trial] = field(default_factory=list)
    filters: FilterChoice | None = None  # None if there is no time to build them
    filter_start: dict[str, Any] = field(default_factory=NO_FILTER.copy)  # of the next choice
    cost: Cost = ENDLESS

    def run(self) -> None:
        """Run all trials that fit the budget."""
        self._untrained()
        if self._go_on(A_PAIR * (len(self.whole) + self.whole.n_users + self.whole.n_items)):
            with suppress(OutOfTime):
                self._trained()

    def affordable(self, best: Trial) -> dict[str, Any]:
        """The settings of the best trial, with fewer steps if time is short."""
        if best.method != METHOD.name:
            return best.settings
        seconds = self.clock.left - (self._filter_seconds if best.settings["filter_weight"] else 0)
        steps = self.cost.steps_in(SPARE * max(seconds, self.clock.budget / 10))
        return best.settings | {"iterations": min(best.settings["iterations"], steps)}

    def _go_on(self, seconds: float = 0.0) -> bool:
        """Whether more than ``seconds`` are left and the search was not interrupted."""
        return not self.interruption.requested and self.clock.left > seconds

    @property
    def _filter_seconds(self) -> float:
        """Seconds to build the filter in the final fit."""
        if self.filters is None:
            return 0.0
        return self.filters.seconds_for(self.whole, self.filter_start["filter_kind"])

    @property
    def _verdict_seconds(self) -> float:
        """Seconds to evaluate a trial, including the choice of its filter."""
        if self.filters is None:
            return self.judge.seconds
        return VERDICTS * self.filters.verdict_seconds

    def _last_fit_seconds(self, iterations: int) -> float:
        return SPARE * self.cost.of(iterations) + self._filter_seconds

    def _kept(
        self,
        method: str,
        settings: dict[str, Any],
        ndcg: float,
        started: float,
        status: Status = "finished",
    ) -> Trial:
        """Record the trial that began at ``started`` and report it to the watcher."""
        number, seconds = len(self.trials) + 1, time.perf_counter() - started
        steps = settings.get("iterations")
        trial = Trial(number, settings, status, ndcg, steps, steps, seconds, method=method)
        self.trials.append(trial)
        self.watcher.tried(self.trials)
        return trial

    def _untrained(self) -> None:
        """Evaluate popularity, then popularity with the filter."""
        started = time.perf_counter()
        device = resolve_hardware(self.device, self.precision, 1).device
        popularity = popularity_scorer(self.judge.train, device)
        self._kept(UNTRAINED, NO_FILTER, self.judge(popularity), started)
        if not self._go_on(2 * seconds_at_most(self.whole, device)):
            return
        self.watcher.doing("choosing the item filter")
        started = time.perf_counter()
        self.filters = FilterChoice(self.judge, device)
        until, until_built = (share * self.clock.budget for share in (FOR_UNTRAINED, FOR_KINDS))
        chosen = self.filters.alone(
            popularity,
            lambda: self._go_on() and self.clock.elapsed < until,
            lambda seconds: self._go_on(2 * seconds) and self.clock.elapsed + seconds < until_built,
        )
        self._kept(UNTRAINED, chosen.settings, chosen.ndcg, started)
        self.filter_start = chosen.settings | {"filter_weight": FIRST_WEIGHT}

    def _trained(self) -> None:
        """Walk from a starting point that depends on the data to better neighbours."""
        self.watcher.doing("timing steps")
        data = self.judge.train
        start = start_for(data, METHOD)
        sizes = sizes_for(data, largest_dim(data))
        self._measured(start, sizes[0], steps=1)  # warm-up: one-time costs of a process
        plan = plan_for(
            data,
            sizes,
            partial(self._measured, start),
            lambda: self.clock.left - self._filter_seconds - self._verdict_seconds,
        )
        self.cost = plan.cost
        start |= plan.settings
        propose = walk(space_around(data, start), start)
        list(run_trials(propose, partial(self._try, start), at_most=MOST))

    def _try(
        self, start: dict[str, Any], number: int, point: Setting, earlier: Sequence[Trial]
    ) -> Trial:
        """Fit the vectors, then choose the filter for them."""
        settings = METHOD.settings(**(start | point | NO_FILTER))
        must_be_left, needed = -math.inf, 0.0
        if earlier:  # the first trial always runs
            must_be_left = self._last_fit_seconds(settings.iterations)
            fit = settings.dim / start["dim"] * self.cost.of(settings.iterations)
            needed = fit + must_be_left + self._verdict_seconds
        if not self._go_on(needed):
            raise OutOfTime
        self.watcher.doing(f"attempt {len(self.trials) + 1}")
        started = time.perf_counter()
        status: Status = "finished"
        how, ndcg = NO_FILTER, 0.0

        def in_time(report: Report) -> None:
            if self.clock.left < must_be_left:
                raise OutOfTime

        try:
            fitted = self._fit(settings, callbacks=[self.watcher.report, in_time])
        except TrainingError:
            status = "diverged"
        else:
            if fitted.training["interrupted"]:
                raise OutOfTime
            if settings.dim == start["dim"]:
                trained = fitted.training["seconds"]
                taken = time.perf_counter() - started
                self.cost = Cost(max(0.0, taken - trained), trained / settings.iterations)
            enough = self._last_fit_seconds(settings.iterations)
            how, ndcg = self._with_filter(fitted.scorer, lambda: self._go_on(enough), earlier)
        keys = (*point, "users_per_batch", "candidates", "iterations", "learning_rate")
        own = {key: getattr(settings, key) for key in keys} | how
        return self._kept(METHOD.name, own, ndcg, started, status)

    def _with_filter(
        self, vectors: VectorScorer, go_on: Callable[[], bool], earlier: Sequence[Trial]
    ) -> tuple[dict[str, Any], float]:
        """The best filter for trained vectors, searched from the best filter so far."""
        if self.filters is None:
            return NO_FILTER, self.judge(vectors)
        self.watcher.doing("choosing its filter")
        starts = [self.filter_start]
        chosen = self.filters.best_for(vectors, starts, go_on, recency_too=not earlier)
        if chosen.ndcg > max((trial.ndcg for trial in earlier), default=0.0):
            self.filter_start = chosen.settings
        return chosen.settings, chosen.ndcg

    def _fit(self, settings: Settings, **watching: Any) -> Fitted:
        hardware = resolve_hardware(self.device, self.precision, settings.dim)
        train = self.judge.train
        return fit_scorer(FitTask(METHOD, settings, self.seed, hardware, train, **watching))

    def _measured(self, start: dict[str, Any], size: Size, steps: int = 3) -> Cost:
        """Measure the cost of a size on a few steps; the first includes one-time costs."""
        moments: list[float] = []

        def look(iteration: int, seconds: float, *vectors: object) -> None:
            moments.append(seconds)

        plan = Plan(size, ENDLESS, steps)
        settings = METHOD.settings(**(start | NO_FILTER | plan.settings))
        started = time.perf_counter()
        self._fit(settings, snapshots=Snapshots(frozenset({1, 3}), look))
        taken = time.perf_counter() - started
        if len(moments) < 2:  # one step, or interrupted
            return ENDLESS
        return Cost(max(0.0, taken - moments[1]), (moments[1] - moments[0]) / 2)
