"""A fit with nothing to decide: hold items out, try what there is time for, fit the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from densirank.automatic.attempts import POPULARITY, Attempt, best_of
from densirank.automatic.budget import Clock, seconds_of
from densirank.automatic.judging import Judge
from densirank.automatic.trials import SPARE, Trials
from densirank.automatic.watching import Nobody, Watcher
from densirank.data.interactions import Interactions
from densirank.data.reading import as_interactions
from densirank.data.splitting import Split, validation_split
from densirank.device import resolve_hardware
from densirank.ranker import Ranker, checked_seed
from densirank.training.callbacks import Callback, Interruption

HELD_OUT = 0.2
A_VERDICT = 0.015
"""Share of the budget that it may take to judge an attempt once."""


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
    """A ranker fitted to all of ``data`` with what ranked held-out items best, within a time.

    A fifth of each user's items is held out (the last ones where an order is known), or the share
    that ``valid`` says, or ``valid`` itself if it is interactions. Popularity, the item–item
    filter and trained vectors of a size that fits the time are tried, the best settings are
    searched from there on, and what did best on the held-out items is fitted to everything.
    ``budget`` is text such as ``"2m"`` or a number of seconds; it is kept within about a fifth,
    reading aside. ``training_["automatic"]`` of the ranker says what was tried.

    Clocks differ, and so do the choices that depend on them: another machine may choose otherwise.
    Ctrl-C ends the search, and the best so far is fitted. ``callbacks`` get the reports of that
    last fit; ``watcher`` is told everything on the way.

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
    watcher = Nobody() if watcher is None else watcher
    parts = _split(whole, valid, valid_split, seed)
    trials: Trials | None = None
    judge: Judge | None = None
    with Interruption() as interruption:
        if parts is not None:
            judge = Judge.of(*parts, where, A_VERDICT * clock.budget)
            trials = Trials(whole, judge, clock, interruption, watcher, (seed, device, precision))
            trials.make()
    attempts = [] if trials is None else trials.attempts
    best = best_of(attempts)
    watcher.doing(f"all data, {best.method}")
    settings = best.settings if trials is None else _affordable(best, trials, clock)
    counting = (
        "auto" if best.method == POPULARITY.method else precision
    )  # popularity has no kernels
    ranker = Ranker(best.method, seed=seed, device=device, precision=counting, **settings)
    ranker.fit(whole, callbacks=[watcher.report, *callbacks])
    ranker.training_["automatic"] = {
        "budget_seconds": clock.budget,
        "seconds": round(clock.elapsed, 3),
        "validation_users": 0 if judge is None else len(judge.users),
        "search_interrupted": interruption.requested,
        "chosen": attempts.index(best) if attempts else None,
        "attempts": [attempt.to_json() for attempt in attempts],
    }
    return ranker


def _split(
    whole: Interactions, valid: Any, how: Literal["last", "random"] | None, seed: int
) -> Split | None:
    """(what attempts are fitted to, what they are judged by), if anything can be held out."""
    if valid is not None and not isinstance(valid, float):
        return whole, as_interactions(valid)
    if whole.user_counts.max() < 2:
        return None
    return validation_split(whole, valid or HELD_OUT, how, seed)


def _affordable(best: Attempt, trials: Trials, clock: Clock) -> dict[str, Any]:
    """The settings of the best attempt, with fewer steps where time would not suffice."""
    settings = best.settings
    if best.method == POPULARITY.method:
        return settings
    seconds = clock.left - (trials.seconds_for_filter if settings["filter_weight"] else 0.0)
    affordable = trials.cost.steps_in(SPARE * max(seconds, clock.budget / 10))
    return settings | {"iterations": min(settings["iterations"], affordable)}
