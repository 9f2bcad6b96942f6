"""``densirank.tune``: search the settings of a method on held-out items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from densirank.data.reading import as_interactions
from densirank.data.splitting import validation_split
from densirank.dimensions import Space
from densirank.errors import InputError
from densirank.methods import Method
from densirank.ranker import Ranker
from densirank.search.propose import run_trials, tpe, walk
from densirank.search.space import space_for, space_from
from densirank.search.study import Folder, Study
from densirank.search.trial import Fits, Trial, best_of
from densirank.settings import whole_number
from densirank.training.callbacks import Callback, Interruption

DEFAULT_TRIALS = 30
"""Default number of trials proposed by Optuna."""


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
    """Choose the settings of a method by how well fits rank held-out items.

    A share of each user's items is held out. Every trial is fitted to the rest with the same seed
    and judged by its validation nDCG@20. Test data cannot be passed.

    The first trial has the method's defaults. Then either Optuna proposes, or with ``grid`` a
    coordinate walk goes over the grid of the space to better neighbours until there is none. Both
    are determined by the seed. A trial that is clearly behind is stopped early
    (:class:`densirank.search.trial.MedianRule`), unless it validates only at its end
    (``validate_every`` = ``iterations``).

    A trial is judged by what a fit to all data can repeat. With a constant step size (``decay`` =
    0) that is the best iterate, and training stops early as in :meth:`densirank.Ranker.fit`. A
    step size that falls over ``iterations`` is judged at the end of the whole schedule: a shorter
    run would have different rates. There ``patience`` has no effect, and the length is a setting
    to search (``"iterations": [100, 200, 400]``). Fit all data with :attr:`Study.settings` or
    ``best.toml``, which hold ``iterations`` accordingly, and without ``valid``.

    Parameters
    ----------
    data
        One set of interactions, or anything :func:`densirank.read` takes.
    method
        A key of :data:`densirank.METHODS`.
    space
        What is searched: setting → a list of choices, a table with ``low`` and ``high`` (and
        perhaps ``log`` and ``points``), or :class:`densirank.search.Choices` and
        :class:`densirank.search.Range`. Default: the method's own space
        (:func:`densirank.search.space.space_for`).
    trials
        How many trials. Default: 30, or with ``grid`` as many as the walk takes.
    grid
        Walk over a grid instead of asking Optuna.
    valid, valid_split
        The share of each user's items to hold out, and which: ``"last"`` (the default where an
        order is known) or ``"random"``.
    seed, device, precision, settings
        As for :class:`densirank.Ranker`. ``settings`` are fixed, not searched.
    folder, resume
        Where to record every finished trial. With ``resume``, an interrupted search in this folder
        continues as if it had not been interrupted.
    callbacks, on_trial
        ``callbacks`` get the reports of every fit, ``on_trial`` all trials so far after each one.

    Returns
    -------
    Study
        The trials and the best of them. Ctrl-C ends the search and returns what there is.

    Raises
    ------
    InputError
        A method, space, setting or data that cannot be searched.
    StorageError
        A folder that belongs to another search, or whose record is damaged.

    Examples
    --------
    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> study = tune(log, "wd-mf", {"dim": [2, 4]}, grid=True, settings={"iterations": 5})
    >>> sorted(trial.settings["dim"] for trial in study.trials)
    [2, 4]
    """
    fixed = dict(settings or {})
    chosen = Ranker(method, seed=seed, **fixed).spec
    chosen.hardware(device, precision, chosen.settings(**fixed))
    whole = as_interactions(data)
    ordered = whole.ordered
    searched = space_for(chosen, fixed, ordered) if space is None else space_from(chosen, space)
    _check(chosen, searched, fixed, trials)
    train, held_out = validation_split(whole, valid, valid_split, seed)
    defaults = chosen.settings_for(ordered, **fixed).to_json()
    propose = walk(searched, defaults) if grid else tpe(searched, defaults, seed)
    identity = {
        "method": method,
        "data": whole.fingerprint,
        "held-out data": held_out.fingerprint,
        "seed": seed,
        "proposals": "grid" if grid else "tpe",
        **defaults,
        **{key: dimension.to_json() for key, dimension in searched.items()},
    }
    record = None if folder is None else Folder(Path(folder), identity, resume)
    done = [] if record is None else record.trials()
    fits = Fits(chosen, fixed, train, held_out, seed, device, precision, callbacks)
    at_most = trials if grid else trials or DEFAULT_TRIALS
    with Interruption() as interruption, suppress(KeyboardInterrupt):
        for trial in run_trials(propose, fits, done, at_most):
            if record is not None:
                record.add(trial, seed)
            done.append(trial)
            if on_trial is not None:
                on_trial(done)
            if interruption.requested:
                break
    study = Study(chosen, searched, fixed, tuple(done), interruption.requested)
    if record is not None and best_of(done) is not None:
        record.write_best(study)
    return study


def _check(method: Method, space: Space, fixed: dict[str, Any], trials: int | None) -> None:
    if not space:
        raise InputError(
            f"{method.name} has no setting left to search; pass a space with other settings"
        )
    for key in space:
        if key in fixed:
            raise InputError(
                f"{key} is both fixed and searched; remove it from the settings or the space"
            )
    if trials is not None:
        trials = whole_number("trials", trials, 1)
    if "patience" in fixed and method.risk is not None and method.settings(**fixed).decay > 0:
        raise InputError(
            "patience has no effect with a decaying step size, because a trial is evaluated at "
            "the end of its schedule; remove patience, or set decay to 0"
        )
