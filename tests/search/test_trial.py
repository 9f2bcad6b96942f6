from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from densirank.search.trial import FEWEST_FINISHED, SPARED_SHARE, Behind, MedianRule, Trial
from densirank.training.callbacks import Report

VALIDATIONS = 10


def curve(quality: float, length: int = 100) -> list[Report]:
    """What a training reports that learns towards a quality, its loss more often than that."""
    reports = []
    for at in range(5, length + 1, 5):
        share = at / length
        validated = at % (length // VALIDATIONS) == 0
        metric = quality * (1 - math.exp(-3 * share)) if validated else None
        reports.append(Report(at, length, float(at), 1.0, metric))
    return reports


def run(number: int, reports: Sequence[Report], earlier: Sequence[Trial]) -> Trial:
    """A trial that makes these reports."""
    rule = MedianRule(earlier)
    status = "finished"
    try:
        for report in reports:
            rule(report)
    except Behind:
        status = "pruned"
    return Trial(
        number, {}, status, rule.best, rule.best_iteration, rule.iterations, 0.0, tuple(rule.curve)  # type: ignore[arg-type]
    )  # fmt: skip


def run_all(qualities: Sequence[float], lengths: Sequence[int] | None = None) -> list[Trial]:
    trials: list[Trial] = []
    for number, quality in enumerate(qualities):
        length = 100 if lengths is None else lengths[number]
        trials.append(run(number + 1, curve(quality, length), trials))
    return trials


def test_a_trial_that_is_behind_is_stopped_as_soon_as_it_is_not_spared() -> None:
    *_, bad = run_all([0.5, 0.6, 0.7, 0.8, 0.1])
    assert bad.status == "pruned"
    assert bad.iterations == math.ceil(SPARED_SHARE * VALIDATIONS) * 10
    assert bad.ndcg == max(ndcg for _, ndcg in bad.curve)


def test_nobody_is_stopped_before_there_are_enough_to_compare_with() -> None:
    trials = run_all([0.9] * (FEWEST_FINISHED - 1) + [0.1])
    assert {trial.status for trial in trials} == {"finished"}
    assert run_all([0.9] * FEWEST_FINISHED + [0.1])[-1].status == "pruned"


@settings(max_examples=50)
@given(st.lists(st.integers(1, 1000), min_size=1, max_size=25))
def test_of_curves_that_do_not_cross_those_below_the_median_are_stopped_and_never_the_best(
    qualities: list[int],
) -> None:
    trials = run_all(qualities)
    assert trials[qualities.index(max(qualities))].status == "finished"
    finished: list[int] = []
    for trial, quality in zip(trials, qualities, strict=True):
        middle = median(finished) if len(finished) >= FEWEST_FINISHED else 0
        if quality != middle:  # where rounding decides
            assert (trial.status == "pruned") == (quality < middle)
        if trial.status == "finished":
            finished.append(quality)


def test_those_who_keep_up_with_the_median_go_on() -> None:
    assert {trial.status for trial in run_all([0.5] * 8)} == {"finished"}


def test_schedules_of_different_lengths_are_compared_at_the_same_share() -> None:
    trials = run_all([0.5, 0.5, 0.5, 0.5, 0.49, 0.51], [100, 200, 1000, 100, 1000, 2000])
    assert [trial.status for trial in trials[4:]] == ["pruned", "finished"]


def test_the_end_of_a_schedule_is_not_cut_off() -> None:
    good = run_all([0.9] * FEWEST_FINISHED)
    at_the_end = run(9, [Report(100, 100, 1.0, 1.0, 0.01)], good)
    assert at_the_end.status == "finished"


def test_the_curve_remembers_where_it_was_highest() -> None:
    rule = MedianRule([])
    for at, metric in ((10, 0.1), (20, 0.3), (30, 0.2), (40, 0.3)):
        rule(Report(at, 100, 0.0, 0.0, metric))
    rule(Report(45, 100, 0.0, 0.0))
    assert (rule.best, rule.best_iteration, rule.iterations) == (0.3, 20, 45)
    assert rule.curve == [(0.1, 0.1), (0.2, 0.3), (0.3, 0.2), (0.4, 0.3)]


def test_a_metric_of_zero_is_a_metric() -> None:
    rule = MedianRule(run_all([0.5] * FEWEST_FINISHED))
    with pytest.raises(Behind):
        rule(Report(50, 100, 0.0, 0.0, 0.0))
    assert (rule.best, rule.best_iteration) == (0.0, 50)
