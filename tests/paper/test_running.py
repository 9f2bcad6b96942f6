"""A run is a plain fit on all training data, tested once; a curve is the same fit, looked at."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from densirank import Interactions, Ranker
from densirank.data.datasets import load_public
from paper.choosing import beginning, choose
from paper.records import SearchRecord
from paper.running import draw_curve, log_spaced, run_once

SETTINGS: dict[str, Any] = {
    "dim": 4,
    "iterations": 12,
    "validate_every": 4,
    "users_per_batch": 50,
    "decay": 0.0,
}


@pytest.fixture
def choice(train: Interactions) -> SearchRecord:
    return choose(train, beginning(train, "tiny", "wd-mf", SETTINGS, "cpu"), (), device="cpu")


@pytest.fixture
def test_part(data_dir: Path) -> Callable[[], Interactions]:
    return lambda: load_public("tiny", "test", data_dir)


def test_a_run_is_the_fit_that_anybody_would_make(
    train: Interactions, choice: SearchRecord, test_part: Callable[[], Interactions]
) -> None:
    record, evaluation = run_once(train, test_part, choice, seed=1, device="cpu")
    iterations = choice.trials[0].iterations
    assert record.iterations == iterations
    plain = Ranker("wd-mf", seed=1, device="cpu", **(SETTINGS | {"iterations": iterations}))
    expected = plain.fit(train).evaluate(test_part())
    assert record.metrics["ndcg@20"] == expected["ndcg@20"]
    assert record.metrics["recall@20"] == expected["recall@20"]
    assert evaluation.per_user["ndcg"].mean() == expected["ndcg@20"]
    assert record.train_fingerprint == train.fingerprint
    assert record.test_fingerprint == test_part().fingerprint


def test_a_curve_ends_where_the_run_does(
    train: Interactions, choice: SearchRecord, test_part: Callable[[], Interactions]
) -> None:
    record, _ = run_once(train, test_part, choice, seed=0, device="cpu")
    curve = draw_curve(train, test_part, choice, seed=0, device="cpu")
    iterations, seconds, ndcg = zip(*curve.points, strict=True)
    assert list(iterations) == log_spaced(record.iterations)
    assert list(seconds) == sorted(seconds)
    assert ndcg[-1] == record.metrics["ndcg@20"]


def test_nothing_is_tested_before_the_settings_are_chosen(train: Interactions) -> None:
    def never() -> Interactions:
        raise AssertionError("the test part was asked for")

    begun = beginning(train, "tiny", "wd-mf", SETTINGS, "cpu")
    for make in (run_once, draw_curve):
        with pytest.raises(ValueError, match="wd-mf on tiny are not chosen yet"):
            make(train, never, begun, 0, device="cpu")


@pytest.mark.parametrize("last", [1, 2, 7, 500, 4000])
def test_log_spaced_iterations_run_from_the_first_to_the_last(last: int) -> None:
    iterations = log_spaced(last)
    assert iterations[0] == 1
    assert iterations[-1] == last
    assert iterations == sorted(set(iterations))
    ratios = [b / a for a, b in pairwise(iterations) if a >= 10]
    assert all(1.2 < ratio < 1.5 for ratio in ratios)
