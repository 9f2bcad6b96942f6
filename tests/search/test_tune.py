"""Whole searches with real fits: what is judged, what is kept, and what nobody may see."""

from __future__ import annotations

import inspect
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from densirank import METHODS, Interactions, Ranker, tune
from densirank.data.splitting import validation_split
from densirank.data.synthetic import planted
from densirank.errors import InputError, StorageError, TrainingError
from densirank.search import Range, Study, Trial
from densirank.search.trial import Fits
from densirank.training.callbacks import Report

DATA = planted(100, 60, items_per_user=10, test_items_per_user=3, seed=5).train
TRAIN, HELD_OUT = validation_split(DATA, 0.2)
SMALL: Any = {"dim": 8, "users_per_batch": 50, "iterations": 20, "validate_every": 4}
SPACE = {"learning_rate": Range(0.001, 0.5, log=True), "max_norm": Range(0.5, 9)}


def tuned(**options: Any) -> Study:
    options = {"settings": SMALL, "trials": 7, "device": "cpu", "space": SPACE} | options
    return tune(options.pop("data", DATA), options.pop("method", "wd-lgcn"), **options)


def without_seconds(trials: tuple[Trial, ...]) -> list[Trial]:
    return [replace(trial, seconds=0.0) for trial in trials]


@pytest.mark.parametrize(("decay", "grid"), [(0.0, False), (0.5, True), (1.0, False)])
def test_what_is_judged_is_what_a_fit_with_the_chosen_settings_gives(
    decay: float, grid: bool
) -> None:
    study = tuned(settings=SMALL | {"decay": decay}, grid=grid, trials=4)
    refitted = Ranker("wd-lgcn", device="cpu", **study.settings).fit(TRAIN)
    assert refitted.training_["iterations"] == study.settings["iterations"]
    assert refitted.evaluate(HELD_OUT)["ndcg@20"] == pytest.approx(study.best.ndcg, abs=1e-12)
    assert study.best.ndcg == max(t.ndcg for t in study.trials if t.status == "finished")


def test_a_constant_step_size_is_judged_where_it_was_best_and_stops_when_patience_ends() -> None:
    overfitting: Any = SMALL | {"decay": 0.0, "iterations": 400, "patience": 3, "l2": 0.0}
    study = tuned(settings=overfitting, space={"max_norm": [9.0]}, grid=True)
    (trial,) = study.trials
    assert trial.iterations is not None
    assert trial.best_iteration == trial.iterations - 3 * SMALL["validate_every"]
    assert trial.iterations < 400
    assert study.settings["iterations"] == trial.best_iteration


def test_a_falling_step_size_is_judged_at_the_end_though_it_was_better_before() -> None:
    overfitting: Any = SMALL | {"decay": 1.0, "iterations": 200, "validate_every": 5, "l2": 0.0}
    study = tuned(settings=overfitting, space={"max_norm": [9.0]}, grid=True)
    (trial,) = study.trials
    assert (trial.iterations, study.settings["iterations"]) == (200, 200)
    assert trial.ndcg == trial.curve[-1][1]
    assert trial.best_iteration is not None
    assert trial.best_iteration < 100  # more validations without improvement than patience has
    assert trial.ndcg < dict(trial.curve)[trial.best_iteration / 200]


def test_trials_are_trained_without_the_items_that_judge_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Interactions, Interactions]] = []
    fit = Ranker.fit

    def spy(self: Ranker, interactions: Any, valid: Any = None, **options: Any) -> Ranker:
        seen.append((interactions, valid))
        return fit(self, interactions, valid, **options)

    monkeypatch.setattr(Ranker, "fit", spy)
    tuned(trials=2)
    assert len(seen) == 2
    for train, held_out in seen:
        trained, judging = set(train.pairs()), set(held_out.pairs())
        assert not trained & judging
        assert trained | judging == set(DATA.pairs())
        for user in range(DATA.n_users):
            row, held = DATA.items_of(user).tolist(), held_out.items_of(user).tolist()
            assert len(row) < 2 or len(held) >= 1
            assert row[len(row) - len(held) :] == held  # the last ones


def test_there_is_no_way_in_for_a_test_set() -> None:
    parameters = inspect.signature(tune).parameters
    data = [p.name for p in parameters.values() if p.annotation in ("Any", "Interactions")]
    assert data == ["data"]
    assert parameters["valid"].annotation == "float"
    assert not any("test" in name for name in parameters)
    with pytest.raises(InputError, match="held out must be between 0 and 1"):
        tuned(valid=HELD_OUT)


@pytest.mark.parametrize("grid", [False, True])
def test_a_search_that_crashed_goes_on_as_if_it_had_not(tmp_path: Path, grid: bool) -> None:
    whole = tuned(folder=tmp_path / "whole", grid=grid)
    assert [trial.number for trial in whole.trials] == list(range(1, len(whole.trials) + 1))
    assert "pruned" in {trial.status for trial in whole.trials}

    class Killed(BaseException):
        pass

    fits_begun = 0

    def kill(report: Report) -> None:
        nonlocal fits_begun
        fits_begun += report.iteration == SMALL["validate_every"]
        if fits_begun == 4:
            raise Killed

    cut = tmp_path / "cut"
    with pytest.raises(Killed):
        tuned(folder=cut, callbacks=[kill], grid=grid)
    with (cut / "trials.jsonl").open("a") as log:
        log.write('{"number": 4, "sett')
    told: list[int] = []
    resumed = tuned(
        folder=cut, resume=True, on_trial=lambda trials: told.append(len(trials)), grid=grid
    )
    assert told == [trial.number for trial in whole.trials[3:]]
    assert without_seconds(resumed.trials) == without_seconds(whole.trials)
    assert (cut / "best.toml").read_text() == (tmp_path / "whole" / "best.toml").read_text()

    again = tuned(folder=cut, resume=True, grid=grid, callbacks=[kill])
    assert again.trials == resumed.trials


def test_a_search_may_be_made_longer(tmp_path: Path) -> None:
    tuned(folder=tmp_path, trials=2)
    longer = tuned(folder=tmp_path, trials=4, resume=True)
    assert without_seconds(longer.trials) == without_seconds(tuned(trials=4).trials)


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"method": "pde-lgcn"}, "method"),
        ({"data": DATA.select(DATA.positions < 8)}, "data"),
        ({"valid": 0.3}, "held-out data"),
        ({"seed": 1}, "seed"),
        ({"grid": True}, "proposals"),
        ({"space": {"max_norm": [1, 2]}}, "learning_rate"),
        ({"settings": SMALL | {"dim": 9}}, "dim"),
    ],
)
def test_the_folder_of_another_search_is_refused(
    tmp_path: Path, changes: dict[str, Any], difference: str
) -> None:
    tuned(folder=tmp_path, trials=1)
    before = (tmp_path / "trials.jsonl").read_bytes()
    with pytest.raises(StorageError, match=f"belongs to another search: its {difference} is"):
        tuned(folder=tmp_path, trials=1, resume=True, **changes)
    assert (tmp_path / "trials.jsonl").read_bytes() == before


def test_the_order_of_the_items_belongs_to_the_data(tmp_path: Path) -> None:
    tuned(folder=tmp_path, trials=1)
    backwards = Interactions.from_pairs(
        DATA.user_ids.ids[DATA.users[::-1]], DATA.item_ids.ids[DATA.items[::-1]], ordered=True
    )
    assert backwards.pairs_fingerprint == DATA.pairs_fingerprint
    with pytest.raises(StorageError, match="its data is"):
        tuned(folder=tmp_path, trials=1, resume=True, data=backwards)
    weights = np.arange(1, len(DATA) + 1, dtype=np.float32)
    with pytest.raises(StorageError, match="its data is"):
        tuned(folder=tmp_path, trials=1, resume=True, data=replace(DATA, weights=weights))


def test_ctrl_c_ends_the_search_and_keeps_what_there_is(tmp_path: Path) -> None:
    interrupted: list[int] = []

    def press(report: Report) -> None:
        if (tmp_path / "trials.jsonl").exists() and not interrupted:
            interrupted.append(report.iteration)
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    study = tuned(folder=tmp_path, callbacks=[press])
    assert study.interrupted
    assert len(study.trials) == 1
    assert signal.getsignal(signal.SIGINT) is handler
    assert (tmp_path / "best.toml").exists()
    resumed = tuned(folder=tmp_path, resume=True, trials=3)
    assert without_seconds(resumed.trials) == without_seconds(tuned(trials=3).trials)


def test_ctrl_c_in_the_last_step_of_a_trial_ends_the_search_after_it() -> None:
    def press(report: Report) -> None:
        if report.iteration == report.iterations:
            signal.raise_signal(signal.SIGINT)

    study = tuned(callbacks=[press])
    assert study.interrupted
    assert [trial.status for trial in study.trials] == ["finished"]


def test_a_stopped_trial_leaves_ctrl_c_as_it_was() -> None:
    handler = signal.getsignal(signal.SIGINT)
    fits = Fits(METHODS["wd-lgcn"], SMALL, TRAIN, HELD_OUT, 0, "cpu", "auto")
    perfect = [
        Trial(n, {}, "finished", 1.0, 1, 1, 0.0, ((0.1, 1.0),)) for n in range(1, 5)
    ]  # fmt: skip
    trial = fits(5, {"max_norm": 4.0}, perfect)
    assert trial.status == "pruned"
    assert trial.iterations == 8  # of 20, validated every 4
    assert trial.ndcg == max(ndcg for _, ndcg in trial.curve) > 0
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_trial_that_diverges_is_one_bad_trial(tmp_path: Path) -> None:
    wild = SMALL | {"max_norm": None}
    study = tuned(space={"learning_rate": [1e20, 0.1]}, settings=wild, grid=True, folder=tmp_path)
    assert {t.settings["learning_rate"]: t.status for t in study.trials} == {
        1e20: "diverged",
        0.1: "finished",
    }
    assert study.best.settings == {"learning_rate": 0.1}
    assert tuned(space={"learning_rate": [1e20, 0.1]}, settings=wild, grid=True, folder=tmp_path,
                 resume=True).trials == study.trials  # fmt: skip
    hopeless = tuned(space={"learning_rate": [1e20]}, settings=wild, grid=True)
    with pytest.raises(TrainingError, match="none of 1 trials finished"):
        _ = hopeless.best


def test_a_method_that_is_not_trained_is_judged_by_what_it_lists(tmp_path: Path) -> None:
    study = tuned(
        method="popularity", space={"low_pass_rank": [4, 8]}, settings={}, folder=tmp_path
    )
    expected = Ranker("popularity", device="cpu").fit(TRAIN).evaluate(HELD_OUT)["ndcg@20"]
    assert [trial.ndcg for trial in study.trials] == [expected, expected]
    assert study.settings == {"low_pass_rank": 8}  # the closest to the default, 256
    assert json.loads((tmp_path / "trials.jsonl").read_text().splitlines()[0])["iterations"] is None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"method": "popularity", "space": None, "settings": {}},
            "popularity has no setting",
        ),
        ({"space": {}}, "no setting left to search"),
        ({"space": {"dim": [4, 8]}}, "dim is both fixed and searched"),
        ({"trials": 0}, "trials must be a whole number of at least 1"),
        ({"trials": 2.5}, "trials must be a whole number"),
        ({"trials": "3"}, "trials must be a whole number"),
        ({"settings": {"patience": 3}}, "patience has no effect"),
        ({"settings": {"depth": 3}}, "unknown setting 'depth'"),
        ({"method": "svd"}, "no method 'svd'"),
        ({"valid": 1.5}, "between 0 and 1"),
        ({"valid_split": "first"}, "'last' or 'random'"),
        ({"data": [(1, 2), (1, 3)], "valid_split": "last"}, "order"),
        ({"device": "abacus"}, "auto, cpu or cuda"),
        ({"precision": "quarter"}, "auto, half or float32"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        tuned(folder=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
