"""Proposals of trials: a coordinate walk over a grid, or Optuna's TPE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from densirank.dimensions import Range, Setting, Space, Value
from densirank.errors import InputError
from densirank.search.trial import Trial, best_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

ATTEMPTS = 50
"""Repeated proposals in a row after which a space counts as exhausted."""

Propose = Callable[[Sequence[Trial]], Setting | None]
"""The next settings after these trials, or None if the search is complete.

A proposal depends only on the trials and has no state, so a resumed search makes the same proposals
as an uninterrupted one.
"""
Evaluate = Callable[[int, Setting, Sequence[Trial]], Trial]
"""(number of the trial, its settings, the trials before it) → the trial."""


def run_trials(
    propose: Propose, evaluate: Evaluate, earlier: Sequence[Trial] = (), at_most: int | None = None
) -> Iterator[Trial]:
    """Propose and evaluate until nothing is proposed, or until there are ``at_most`` trials."""
    trials = list(earlier)
    while at_most is None or len(trials) < at_most:
        setting = propose(trials)
        if setting is None:
            return
        trials.append(evaluate(len(trials) + 1, setting, trials))
        yield trials[-1]


def walk(space: Space, start: Mapping[str, Value], *, upward: bool = False) -> Propose:
    """Climb over the grid of a space, one setting and one step at a time.

    The start comes first, then the neighbours of the best trial so far; among these, steps of the
    setting whose last step improved the result come before others. The walk ends when every
    neighbour of the best trial has been tried. On the paper's grid of 270 points it visits about
    twenty. Settings of a trial that are not in ``space`` are ignored. ``upward`` tries larger
    values before smaller ones.

    >>> from densirank.search import Choices
    >>> propose = walk({"l2": Choices((1, 2, 3))}, {"l2": 2})
    >>> propose([]), propose([Trial(1, {"l2": 2, "dim": 8}, "finished", 0.5)])
    ({'l2': 2}, {'l2': 1})
    """
    grid = {key: dimension.grid() for key, dimension in space.items()}
    first = {key: choices.closest(start[key]) for key, choices in grid.items()}

    def point(trial: Trial | None) -> Setting:
        return first if trial is None else {key: trial.settings[key] for key in grid}

    def propose(trials: Sequence[Trial]) -> Setting | None:
        best = best_of(trials)
        before = None if best is None else best_of(trials[: trials.index(best)])
        here, there = point(best), point(before)
        tried = [point(trial) for trial in trials]
        around = (
            here | {key: value}
            for key in sorted(grid, key=lambda key: here[key] == there[key])
            for value in list(grid[key].neighbours(here[key]))[:: -1 if upward else 1]
        )
        return next((setting for setting in (here, *around) if setting not in tried), None)

    return propose


def tpe(space: Space, defaults: Mapping[str, Value], seed: int) -> Propose:
    """The defaults, then proposals of Optuna's TPE sampler (Bergstra et al. 2011).

    Each proposal comes from a new in-memory study with all trials so far and a sampler seeded by
    the search's seed and the number of the trial. None of Optuna's storages keeps the state of its
    samplers, so this is necessary to make the proposals of a resumed search reproducible.
    """
    optuna = _optuna()
    distributions: dict[str, Any] = {}
    for key, dimension in space.items():
        if isinstance(dimension, Range):
            kind = "IntDistribution" if dimension.whole else "FloatDistribution"
            numbers = getattr(optuna.distributions, kind)
            distributions[key] = numbers(dimension.low, dimension.high, log=dimension.log)
        else:
            distributions[key] = optuna.distributions.CategoricalDistribution(dimension.values)

    def told(trial: Trial) -> FrozenTrial:
        states = optuna.trial.TrialState
        frozen: FrozenTrial = optuna.trial.create_trial(
            state=states.PRUNED if trial.status == "pruned" else states.COMPLETE,
            value=trial.ndcg,
            params=trial.settings,
            distributions=distributions,
            intermediate_values={round(1000 * share): ndcg for share, ndcg in trial.curve},
        )
        return frozen

    def ask(trials: Sequence[Trial], attempt: int) -> Setting:
        mixed = np.random.SeedSequence((seed, len(trials), attempt)).generate_state(1)
        sampler = optuna.samplers.TPESampler(seed=int(mixed[0]))
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        optuna.logging.set_verbosity(verbosity)
        study.add_trials(map(told, trials))
        return _closest(space, study.ask(distributions).params)

    def propose(trials: Sequence[Trial]) -> Setting | None:
        if not trials:
            return _closest(space, defaults)
        tried = [trial.settings for trial in trials]
        proposals = (ask(trials, attempt) for attempt in range(ATTEMPTS))
        return next((setting for setting in proposals if setting not in tried), None)

    return propose


def _closest(space: Space, values: Mapping[str, Value]) -> Setting:
    return {key: dimension.closest(values[key]) for key, dimension in space.items()}


def _optuna() -> ModuleType:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise InputError(
            "Optuna, which proposes trials, is not installed: pip install "
            "'densirank[tune]', or search a grid instead (--grid)"
        ) from error
    return optuna
