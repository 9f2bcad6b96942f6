"""The search finds the best setting of a landscape that is known, and sees training data alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from densirank import METHODS, Ranker, search
from densirank.data.interactions import Interactions
from densirank.data.splitting import split_last_fraction
from densirank.errors import TrainingError
from densirank.methods import Method
from paper import choosing
from paper.choosing import beginning, choose
from paper.grids import GRIDS
from paper.records import SearchRecord
from paper.rows import TABLES

Landscape = Callable[[Any], float]
STAGES = ({"max_norm": (1.0, 2.0, 3.0, None)}, {"l2": (0.1, 0.2), "learning_rate": (0.3, 0.4)})


class FakeFits:
    """Fits nothing: how good a trial is, is a function of its settings."""

    landscape: Landscape
    made: list[tuple[Interactions, Interactions]]

    def __init__(
        self,
        method: Method,
        fixed: dict[str, Any],
        train: Interactions,
        held_out: Interactions,
        *options: object,
    ) -> None:
        self.fixed, self.parts = fixed, (train, held_out)

    def __call__(self, number: int, setting: dict[str, Any], earlier: object) -> search.Trial:
        self.made.append(self.parts)
        quality = type(self).landscape(METHODS["wd-mf"].settings(**(self.fixed | setting)))
        status = "diverged" if math.isnan(quality) else "finished"
        return search.Trial(number, setting, status, quality, 30, 40, 1.0)  # type: ignore[arg-type]


@pytest.fixture
def landscape(monkeypatch: pytest.MonkeyPatch) -> Callable[[Landscape], list[Any]]:
    """Puts a landscape in the place of fits; gives the list of those that are made."""

    def put(function: Landscape) -> list[Any]:
        FakeFits.landscape = staticmethod(function)
        FakeFits.made = []
        monkeypatch.setattr(choosing, "Fits", FakeFits)
        return FakeFits.made

    return put


def begun(train: Interactions, **given: Any) -> SearchRecord:
    return beginning(train, "tiny", "wd-mf", given, device="cpu")


def hill(settings: Any) -> float:
    """Best at max_norm 2, l2 .2 and rate .4; the last two count only where max_norm is right."""
    if settings.max_norm is None:
        return math.nan
    right = settings.max_norm == 2.0
    best = settings.l2 == 0.2 and settings.learning_rate == 0.4
    return 0.2 + 0.3 * float(right) + 0.1 * float(right and best)


def test_the_best_of_every_stage_is_found(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    fits = landscape(hill)
    record = choose(train, begun(train, max_norm=3.0), STAGES, device="cpu")
    assert record.chosen_settings is not None
    wanted = {"max_norm": 2.0, "l2": 0.2, "learning_rate": 0.4, "iterations": 30}
    assert {key: record.chosen_settings[key] for key in wanted} == wanted
    assert len(fits) == len(record.trials) == 1 + 3 + 4  # the start is one of the first stage
    failed = [trial for trial in record.trials if trial.failed]
    assert [trial.varied for trial in failed] == [{"max_norm": None}]


def test_the_start_is_kept_if_nothing_is_better(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    landscape(lambda settings: 0.5)
    record = choose(train, begun(train), STAGES, device="cpu")
    assert record.chosen == 0


def test_whatever_can_be_trained_is_better_than_what_cannot(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    landscape(lambda settings: 0.0 if settings.max_norm == 2.0 else math.nan)
    record = choose(train, begun(train), STAGES[:1], device="cpu")
    assert record.chosen is not None
    assert record.trials[record.chosen].varied == {"max_norm": 2.0}


def test_where_nothing_can_be_trained_nothing_is_chosen(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    landscape(lambda settings: math.nan)
    with pytest.raises(TrainingError, match="no setting of wd-mf works: training diverged"):
        choose(train, begun(train), STAGES, device="cpu")


def test_a_search_that_broke_off_is_gone_on_with(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    fits = landscape(hill)
    whole = choose(train, begun(train), STAGES, device="cpu")
    n_whole = len(fits)
    kept: list[SearchRecord] = []

    def keep(record: SearchRecord) -> None:
        kept.append(record)
        if len(kept) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choose(train, begun(train), STAGES, device="cpu", keep=keep)
    assert kept[-1].chosen is None
    fits.clear()
    resumed = choose(train, kept[-1], STAGES, device="cpu")
    assert len(fits) == n_whole - 3
    without_clock = [
        [replace(trial, seconds=0) for trial in record.trials] for record in (resumed, whole)
    ]
    assert without_clock[0] == without_clock[1]
    assert resumed.chosen == whole.chosen


def test_the_last_fifth_of_every_training_row_is_held_out(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    fits = landscape(hill)
    choose(train, begun(train), (), device="cpu")
    ((fitted, held_out),) = fits
    wanted_fitted, wanted_held_out = split_last_fraction(train, 0.2)
    assert list(fitted.pairs()) == list(wanted_fitted.pairs())
    assert list(held_out.pairs()) == list(wanted_held_out.pairs())


def test_several_shares_held_out_are_judged_together(
    train: Interactions, landscape: Callable[[Landscape], list[Any]]
) -> None:
    fits = landscape(hill)
    both = [0.2, 0.4]
    record = choose(train, replace(begun(train), held_out=both), (), device="cpu")
    assert [list(held_out.pairs()) for _, held_out in fits] == [
        list(split_last_fraction(train, share)[1].pairs()) for share in both
    ]
    start = {**SHORT, "decay": 1.0}
    found = [
        choose(train, replace(begun(train, **start), held_out=shares), (), device="cpu").trials[0]
        for shares in (both, both[:1], both[1:])
    ]
    assert record.held_out == both
    ndcgs = [trial.ndcg or 0.0 for trial in found]
    assert ndcgs[0] == pytest.approx((ndcgs[1] + ndcgs[2]) / 2)


SHORT: dict[str, Any] = {"dim": 4, "iterations": 6, "validate_every": 2, "users_per_batch": 50}


def test_a_falling_rate_is_validated_at_its_end_alone(train: Interactions) -> None:
    reports: list[Any] = []
    record = choose(
        train, begun(train, decay=1.0, **SHORT), (), device="cpu", callbacks=[reports.append]
    )
    assert [report.iteration for report in reports if report.validation is not None] == [6]
    assert record.trials[0].iterations == 6


def test_a_constant_rate_is_stopped_where_it_is_best(train: Interactions) -> None:
    start = begun(train, decay=0.0, learning_rate=1e-9, **SHORT)  # nothing gets better
    record = choose(train, start, (), device="cpu")
    assert record.trials[0].iterations == 2


def test_what_is_not_trained_is_validated_too(train: Interactions) -> None:
    record = choose(train, beginning(train, "tiny", "popularity", {}, "cpu"), (), device="cpu")
    fitted, held_out = split_last_fraction(train, 0.2)
    popularity = Ranker("popularity", device="cpu").fit(fitted)
    per_user = popularity.evaluation(held_out).per_user["ndcg"]
    assert record.trials[0].ndcg == pytest.approx(np.mean(per_user))
    assert record.trials[0].iterations is None


def test_every_method_of_the_tables_has_a_grid_of_settings_that_are_allowed() -> None:
    assert set(GRIDS) == {method for table in TABLES.values() for method in table.methods}
    for method, grid in GRIDS.items():
        start = METHODS[method].settings(**grid.fixed)
        for stage in grid.stages:
            for key, values in stage.items():
                for value in values:
                    replace(start, **{key: value})
        assert grid.seeds[0] == 0  # the seed whose users are kept
        assert sum(math.prod(map(len, stage.values())) for stage in grid.stages) <= 50
