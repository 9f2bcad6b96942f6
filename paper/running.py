"""One run: fit on all training data with the chosen settings, then test once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.device import resolve_device
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation
from densirank.ranker import Ranker, fit_ranker
from densirank.scores import VectorScorer
from densirank.training.callbacks import Callback, Snapshots
from paper.provenance import checkout, hardware, versions
from paper.records import CurveRecord, K, RunRecord, SearchRecord

WARM_UP_ITERATIONS = 4

GetTest = Callable[[], Interactions]
"""Test data comes as a function, which is called when there is something to test."""


def run_once(
    train: Interactions,
    test: GetTest,
    choice: SearchRecord,
    seed: int,
    *,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
) -> tuple[RunRecord, Evaluation]:
    """The record of one run, and the metrics of every test user."""
    settings = chosen_settings(choice)
    ranker = Ranker(choice.method, seed=seed, device=device, **settings)
    started = time.perf_counter()
    ranker.fit(train, callbacks=callbacks)
    seconds = time.perf_counter() - started
    stop_if_interrupted(ranker)
    held_out = test()
    evaluation = ranker.evaluation(held_out, K)
    record = RunRecord(
        **_about(ranker, choice, settings),
        test_fingerprint=held_out.fingerprint,
        iterations=ranker.training_.get("iterations", 0),
        seconds=round(ranker.training_.get("seconds", seconds), 3),
        metrics=evaluation.summary(),
    )
    return record, evaluation


def draw_curve(
    train: Interactions,
    test: GetTest,
    choice: SearchRecord,
    seed: int,
    *,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
) -> CurveRecord:
    """How test nDCG@20 grows with iterations and seconds: for show, after all is chosen."""
    settings = chosen_settings(choice)
    warm_up = settings | {"iterations": WARM_UP_ITERATIONS}
    Ranker(choice.method, seed=seed, device=device, **warm_up).fit(train)  # compiles its kernels
    held_out = test()
    measure = HeldOut(held_out, train, resolve_device(device))
    points: list[list[float]] = []

    def look(iteration: int, seconds: float, users: Tensor, items: Tensor) -> None:
        found = measure.evaluate(VectorScorer(users, items), K)
        points.append([iteration, round(seconds, 4), float(found.per_user["ndcg"].mean())])

    ranker = Ranker(choice.method, seed=seed, device=device, **settings)
    after = frozenset(log_spaced(ranker.spec.settings(**settings).iterations))
    fit_ranker(ranker, train, callbacks=callbacks, snapshots=Snapshots(after, look))
    stop_if_interrupted(ranker)
    return CurveRecord(
        **_about(ranker, choice, settings), test_fingerprint=held_out.fingerprint, points=points
    )


def chosen_settings(choice: SearchRecord) -> dict[str, Any]:
    """The settings of a finished choice: nothing is tested before it is stored."""
    settings = choice.chosen_settings
    if settings is None:
        raise ValueError(f"the settings of {choice.method} on {choice.dataset} are not chosen yet")
    return settings


def log_spaced(last: int, a_decade: int = 8) -> list[int]:
    """Iterations from 1 to the last one, about so many for each factor of ten.

    >>> log_spaced(10, a_decade=3)
    [1, 2, 5, 10]
    """
    count = int(np.ceil(np.log10(last) * a_decade)) + 1
    return sorted({round(value) for value in np.geomspace(1, last, count)})


def stop_if_interrupted(ranker: Ranker) -> None:
    """Ctrl-C ends a fit early and in order; what it left is no result."""
    if ranker.training_.get("interrupted"):
        raise KeyboardInterrupt


def _about(ranker: Ranker, choice: SearchRecord, settings: dict[str, Any]) -> dict[str, Any]:
    """What the records of runs and of curves have in common."""
    return {
        "method": choice.method,
        "dataset": choice.dataset,
        "seed": ranker.seed,
        "settings": settings,
        "train_fingerprint": ranker.interactions_.fingerprint,
        "versions": versions(),
        "hardware": hardware(ranker.device, choice.method, ranker.settings_),
        **checkout(),
    }
