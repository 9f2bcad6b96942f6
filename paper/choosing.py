"""Choosing a method's settings on validation data.

What is chosen by comes out of the training data: the last fifth of each user's items. Nothing here
takes test data, so none can reach a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import mean
from typing import Any

from densirank.data.interactions import Interactions
from densirank.data.splitting import validation_split
from densirank.errors import TrainingError
from densirank.methods import method_named
from densirank.search.trial import Fits
from densirank.training.callbacks import Callback
from paper.grids import Stage
from paper.provenance import checkout, hardware, versions
from paper.records import SearchRecord, Trial

HELD_OUT = 0.2
"""The share of each user's items, the last ones, that trials are judged by."""
SEED = 0

Keep = Callable[[SearchRecord], object]


def beginning(
    train: Interactions,
    dataset: str,
    method: str,
    given: Mapping[str, Any],
    device: str = "auto",
    kind: type[SearchRecord] = SearchRecord,
    held_out: Sequence[float] = (HELD_OUT,),
) -> SearchRecord:
    """A search that has tried nothing yet, from the method's defaults with ``given`` on top.

    Every trial is fitted once for each share ``held_out`` of each user's last items.
    """
    chosen = method_named(method)
    settings = chosen.settings(**chosen.own(given))
    return kind(
        method=method,
        dataset=dataset,
        seed=SEED,
        settings=settings.to_json(),
        train_fingerprint=train.fingerprint,
        versions=versions(),
        hardware=hardware(device, method, settings),
        **checkout(),
        held_out=list(held_out),
    )


def choose(
    train: Interactions,
    begun: SearchRecord,
    stages: Sequence[Stage],
    *,
    device: str = "auto",
    keep: Keep = lambda record: None,
    callbacks: Sequence[Callback] = (),
) -> SearchRecord:
    """Try the start and then, stage by stage, what lies around the best so far; choose the best.

    Trials that ``begun`` holds already are not made again. ``keep`` gets the record after each new
    one, so that a search that breaks off can be gone on with.
    """
    fits = [
        Fits(
            method_named(begun.method),
            begun.settings,
            *validation_split(train, share, "last"),
            begun.seed,
            device,
            "auto",
            callbacks,
        )
        for share in begun.held_out
    ]
    known = begun.trials
    trials: list[Trial] = []

    def consider(settings: Mapping[str, Any]) -> None:
        varied = {key: value for key, value in settings.items() if begun.settings[key] != value}
        if _find(trials, varied) is not None:
            return
        trial = _find(known, varied)
        if trial is not None:
            trials.append(trial)
        else:
            trials.append(_try(fits, begun.settings, varied))
            keep(replace(begun, trials=list(trials)))

    consider(begun.settings)
    for stage in stages:
        around = begun.settings | trials[_best(trials)].varied
        for values in product(*stage.values()):
            consider(around | dict(zip(stage, values, strict=True)))
    best = _best(trials)
    if trials[best].ndcg is None:
        raise TrainingError(f"no setting of {begun.method} works: {trials[best].failed}")
    return replace(begun, trials=trials, chosen=best)


def _find(trials: Sequence[Trial], varied: Mapping[str, Any]) -> Trial | None:
    return next((trial for trial in trials if trial.varied == varied), None)


def _best(trials: Sequence[Trial]) -> int:
    """The place of the best trial, the earliest if there are several; a failed one is no match."""
    ndcgs = [-1.0 if trial.ndcg is None else trial.ndcg for trial in trials]
    return ndcgs.index(max(ndcgs))


def _try(fits: Sequence[Fits], start: Mapping[str, Any], varied: dict[str, Any]) -> Trial:
    """Fit without the held-out items and see how well they are found, on average over the fits."""
    settings = {**start, **varied}
    setting = dict(varied)
    if settings.get("decay", 0) > 0:  # a rate that falls to zero makes sense at its end alone
        setting["validate_every"] = settings["iterations"]
    tried = [fit(1, setting, ()) for fit in fits]
    seconds = round(sum(one.seconds for one in tried), 3)
    for one in tried:
        if one.status != "finished":
            return Trial(varied, None, None, seconds, failed=f"training {one.status}")
    return Trial(varied, mean(one.ndcg for one in tried), tried[0].best_iteration, seconds)
