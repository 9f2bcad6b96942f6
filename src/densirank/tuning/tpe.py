"""Proposals by Optuna's Tree-structured Parzen Estimator (Bergstra et al. 2011)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from densirank.dimensions import Dimension, Range, Setting, Space, Value
from densirank.errors import InputError
from densirank.tuning.grid import Propose
from densirank.tuning.trials import Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

ATTEMPTS = 50
"""Proposals in a row that were tried before, after which a space counts as searched."""


def tpe(space: Space, defaults: Mapping[str, Value], seed: int) -> Propose:
    """The defaults first, then some random settings, then what looks best given the trials.

    Every proposal comes from a sampler of its own, seeded by the search's seed and the number of
    the trial, that is told all trials so far.
    """
    optuna = _optuna()
    distributions = {key: _distribution(optuna, dimension) for key, dimension in space.items()}

    def ask(trials: Sequence[Trial], attempt: int) -> Setting:
        mixed = np.random.SeedSequence((seed, len(trials), attempt)).generate_state(1)
        verbosity = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.TPESampler(seed=int(mixed[0]))
        )
        optuna.logging.set_verbosity(verbosity)
        study.add_trials([_told(optuna, trial, distributions) for trial in trials])
        asked = study.ask(distributions).params
        return {key: dimension.closest(asked[key]) for key, dimension in space.items()}

    def propose(trials: Sequence[Trial]) -> Setting | None:
        if not trials:
            return {key: dimension.closest(defaults[key]) for key, dimension in space.items()}
        tried = [trial.settings for trial in trials]
        proposals = (ask(trials, attempt) for attempt in range(ATTEMPTS))
        return next((setting for setting in proposals if setting not in tried), None)

    return propose


def _optuna() -> ModuleType:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise InputError(
            "trials are proposed by Optuna, which is not installed: pip install "
            "'densirank[tune]', or search a grid instead (--grid)"
        ) from error
    return optuna


def _distribution(optuna: ModuleType, dimension: Dimension) -> BaseDistribution:
    if isinstance(dimension, Range):
        kinds = optuna.distributions
        kind = kinds.IntDistribution if dimension.whole else kinds.FloatDistribution
        distribution: BaseDistribution = kind(dimension.low, dimension.high, log=dimension.log)
        return distribution
    categorical: BaseDistribution = optuna.distributions.CategoricalDistribution(dimension.values)
    return categorical


def _told(
    optuna: ModuleType, trial: Trial, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    """The trial in Optuna's terms; a pruned one tells how far it came and how well it did there."""
    pruned = trial.status == "pruned"
    states = optuna.trial.TrialState
    told: FrozenTrial = optuna.trial.create_trial(
        state=states.PRUNED if pruned else states.COMPLETE,
        value=trial.ndcg,
        params=trial.settings,
        distributions=dict(distributions),
        intermediate_values={round(1000 * share): ndcg for share, ndcg in trial.curve},
    )
    return told
