"""The search: hold items out, then propose, fit and record until enough was tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.data.splitting import validation_split
from densirank.dimensions import Setting, Space
from densirank.errors import InputError, TrainingError
from densirank.fit import VALIDATION_K
from densirank.methods import Method
from densirank.ranker import Ranker
from densirank.settings import TrainingSettings
from densirank.training.callbacks import Callback, Interruption
from densirank.tuning.grid import Propose, grid_walk
from densirank.tuning.pruning import Behind, MedianRule
from densirank.tuning.records import Records
from densirank.tuning.spaces import space_for, space_from
from densirank.tuning.tpe import tpe
from densirank.tuning.trials import Status, Study, Trial, best_of

DEFAULT_TRIALS = 30
"""Trials that Optuna proposes where nothing is said."""

Evaluate = Callable[[int, Setting, Sequence[Trial]], Trial]
"""(number of the trial, its settings, the trials before it) → the trial."""


def tune(
    data: Any,
    method: str = "wd-lgcn",
    space: Mapping[str, Any] | None = None,
    *,
    trials: int | None = None,
    grid: bool = False,
    valid: float = 0.2,
    valid_split: Literal["last", "random"] | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    settings: dict[str, Any] | None = None,
    folder: str | PathLike[str] | None = None,
    resume: bool = False,
    callbacks: Sequence[Callback] = (),
    on_trial: Callable[[Sequence[Trial]], None] | None = None,
) -> Study:
    """Choose the settings of a method by how well fits rank items that were held out.

    ``data`` is one set of interactions, or anything :func:`densirank.read` takes. A share
    ``valid`` of each user's items is held out (``valid_split``: the last ones where an order is
    known), every trial is fitted to the rest with the same seed, and its validation nDCG@20 is
    what counts. A test set has no way in.

    ``space`` says what is searched: setting → a list of choices, or a table with ``low`` and
    ``high`` (and perhaps ``log``), or :class:`Choices` and :class:`Range`; by default what
    :func:`densirank.tuning.spaces.space_for` knows about the method. ``settings`` are fixed.

    Optuna proposes ``trials`` trials (30 if not given). With ``grid`` a climb over the space's
    grid does, from the defaults to better neighbours until there is none, or ``trials`` are made.
    Both start from the method's defaults, and both are decided by the seed. A trial that is
    clearly behind is stopped (:class:`densirank.tuning.pruning.MedianRule`); where nothing is
    validated before the end (``validate_every`` = ``iterations``), nothing is.

    What a trial is judged by is what a fit to all data can repeat. Where the step size does not
    fall (``decay`` = 0) that is the best iterate, and training stops early as
    :meth:`densirank.Ranker.fit` does. Where it falls over ``iterations``, it is the end of the
    whole schedule: the iterate before the end cannot be had by a shorter run, whose rates would
    all be different. So ``patience`` has no effect there, and how long to train is a question for
    the space (``"iterations": [100, 200, 400]``). :attr:`Study.settings` and ``best.toml`` hold
    ``iterations`` accordingly: fit all data with them, and without ``valid``.

    ``folder`` keeps a record of every finished trial; with ``resume`` a search that was cut off
    goes on there as if it had not been. Ctrl-C ends the search and returns what there is.
    ``callbacks`` get the reports of every fit, and ``on_trial`` all trials so far after each one.

    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> study = tune(log, "wd-mf", {"dim": [2, 4]}, grid=True, settings={"iterations": 5})
    >>> sorted(trial.settings["dim"] for trial in study.trials)
    [2, 4]
    """
    chosen = Ranker(method, seed=seed, **(settings or {})).spec
    fixed = dict(settings or {})
    chosen.hardware(device, precision, chosen.settings(**fixed))
    whole = data if isinstance(data, Interactions) else read(data)
    ordered = whole.ordered
    searched = space_for(chosen, fixed, ordered) if space is None else space_from(chosen, space)
    _check(chosen, searched, fixed, trials)
    train, held_out = validation_split(whole, valid, valid_split, seed)
    defaults = chosen.settings_for(ordered, **fixed).to_json()
    propose = grid_walk(searched, defaults) if grid else tpe(searched, defaults, seed)
    identity = {
        "method": method,
        "data": whole.fingerprint,
        "held-out data": held_out.fingerprint,
        "seed": seed,
        "proposals": "grid" if grid else "tpe",
        **defaults,
        **{key: dimension.to_json() for key, dimension in searched.items()},
    }
    records = None if folder is None else Records(Path(folder), identity, resume)
    done = [] if records is None else records.trials()
    fits = Fits(chosen, fixed, train, held_out, seed, device, precision, callbacks)
    at_most = trials if grid else trials or DEFAULT_TRIALS
    with Interruption() as interruption, suppress(KeyboardInterrupt):
        for trial in search(propose, fits, done, at_most):
            if records is not None:
                records.add(trial, seed)
            done.append(trial)
            if on_trial is not None:
                on_trial(done)
            if interruption.requested:
                break
    study = Study(chosen, searched, fixed, tuple(done), interruption.requested)
    if records is not None and best_of(done) is not None:
        records.write_best(study)
    return study


def search(
    propose: Propose, evaluate: Evaluate, earlier: Sequence[Trial], at_most: int | None
) -> Iterator[Trial]:
    """Trial after trial, until nothing is proposed or there are enough with the earlier ones."""
    trials = list(earlier)
    while at_most is None or len(trials) < at_most:
        setting = propose(trials)
        if setting is None:
            return
        trials.append(evaluate(len(trials) + 1, setting, trials))
        yield trials[-1]


@dataclass(frozen=True)
class Fits:
    """Trials that are fits: all to the same items, with the same seed, judged by the same items."""

    method: Method
    fixed: dict[str, Any]
    train: Interactions
    held_out: Interactions
    seed: int
    device: str
    precision: str
    callbacks: Sequence[Callback] = ()

    def __call__(self, number: int, setting: Setting, earlier: Sequence[Trial]) -> Trial:
        """Fit with these settings, and stop where the trials before it say that it is behind."""
        chosen = self.fixed | setting
        settings = self.method.settings(**chosen)
        judged_at_end = isinstance(settings, TrainingSettings) and settings.decay > 0
        if judged_at_end:  # no stopping before it
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
        )


def _check(method: Method, space: Space, fixed: dict[str, Any], trials: int | None) -> None:
    if not space:
        raise InputError(f"{method.name} has no setting left to search; name a space")
    for key in space:
        if key in fixed:
            raise InputError(f"{key} is both fixed and searched; choose one")
    if trials is not None and trials < 1:
        raise InputError(f"trials must be at least 1, not {trials}")
    if "patience" in fixed and method.risk is not None and method.settings(**fixed).decay > 0:
        raise InputError(
            "patience has no effect where the step size falls to the end of the schedule, by which "
            "a trial is judged; leave patience out, or set decay to 0"
        )
