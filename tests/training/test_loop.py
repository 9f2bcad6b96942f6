"""The loop: it learns, stops, keeps the best, and comes back from the dead to the same result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from densirank import Interactions, Ranker
from densirank.data.splitting import validation_split
from densirank.data.synthetic import planted
from densirank.errors import StorageError, TrainingError
from densirank.ranker import fit_ranker
from densirank.settings import Number
from densirank.training.callbacks import Interruption, JsonLines, Report, Snapshots

WORLD = planted(120, 60, items_per_user=10, test_items_per_user=3, seed=5)
SMALL: dict[str, Any] = {
    "dim": 8,
    "users_per_batch": 32,
    "iterations": 40,
    "validate_every": 5,
    "decay": 0.0,  # a run of 20 iterations is the first half of one of 40
}


def fitted(**options: Any) -> Ranker:
    fit_options = {
        key: options.pop(key) for key in ("valid", "checkpoint", "snapshots") if key in options
    }
    ranker = Ranker(options.pop("method", "wd-lgcn"), device="cpu", **(SMALL | options))
    return fit_ranker(ranker, WORLD.train, checkpoint_seconds=0, **fit_options)


def same_vectors(one: Ranker, other: Ranker) -> bool:
    return torch.equal(one.scorer_.user_vectors, other.scorer_.user_vectors) and torch.equal(
        one.scorer_.item_vectors, other.scorer_.item_vectors
    )


class Killed(BaseException):
    """Stands for a process that ends between two steps."""


def killer(at: int) -> Any:
    def callback(report: Report) -> None:
        if report.iteration >= at:
            raise Killed

    return callback


def test_training_lowers_the_loss_and_beats_popularity() -> None:
    ranker = fitted()
    reports = ranker.training_["reports"]
    assert reports[-1]["loss"] < reports[0]["loss"]
    popularity = Ranker("popularity", device="cpu").fit(WORLD.train)
    assert ranker.evaluate(WORLD.test)["ndcg@20"] > 1.3 * popularity.evaluate(WORLD.test)["ndcg@20"]


def test_same_seed_same_result_and_another_seed_another() -> None:
    assert same_vectors(fitted(seed=3), fitted(seed=3))
    assert not same_vectors(fitted(seed=3), fitted(seed=4))


@pytest.mark.parametrize("candidates", ["batch", 20])
@pytest.mark.parametrize("valid", [None, 0.2])
def test_a_killed_run_resumes_to_the_same_result(
    tmp_path: Path, candidates: Any, valid: float | None
) -> None:
    whole = fitted(candidates=candidates, valid=valid)
    path = tmp_path / "run.safetensors"
    ranker = Ranker("wd-lgcn", device="cpu", candidates=candidates, **SMALL)
    with pytest.raises(Killed):
        ranker.fit(
            WORLD.train, valid, callbacks=[killer(20)], checkpoint=path, checkpoint_seconds=0
        )
    assert path.exists()
    resumed = fitted(candidates=candidates, valid=valid, checkpoint=path)
    assert same_vectors(resumed, whole)
    assert resumed.training_["best_iteration"] == whole.training_["best_iteration"]


@pytest.mark.parametrize("method", ["ngcf", "mult-vae", "enmf", "lightgcn-ans", "irwgan"])
def test_a_killed_run_that_draws_numbers_resumes_to_the_same_result(
    tmp_path: Path, method: str
) -> None:
    path = tmp_path / "run.safetensors"
    ranker = Ranker(method, device="cpu", **SMALL)
    with pytest.raises(Killed):
        ranker.fit(WORLD.train, callbacks=[killer(20)], checkpoint=path, checkpoint_seconds=0)
    resumed = fitted(method=method, checkpoint=path)
    assert resumed.training_["iterations"] == SMALL["iterations"]
    assert same_vectors(resumed, fitted(method=method))


def test_plain_validation_pairs_and_a_checkpoint_go_together(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    assert same_vectors(
        fitted(valid=list(WORLD.test.pairs()), checkpoint=path), fitted(valid=WORLD.test)
    )
    assert path.exists()


def test_a_checkpoint_of_another_run_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    fitted(checkpoint=path)
    with pytest.raises(StorageError, match=r"its l2 is [0-9.]+, not 0.5"):
        fitted(checkpoint=path, l2=0.5)


def test_a_checkpoint_of_reordered_or_reweighted_data_is_refused(tmp_path: Path) -> None:
    path, log = tmp_path / "run.safetensors", WORLD.train
    ids = log.user_ids.ids[log.users], log.item_ids.ids[log.items]
    rows = [column[::-1] for column in ids]
    weighted = replace(log, weights=np.arange(1, len(log) + 1, dtype=np.float32))

    def fit(data: Interactions, valid: float | None = None) -> None:
        fit_ranker(
            Ranker("wd-mf", device="cpu", **SMALL),
            data,
            valid,
            checkpoint=path,
            checkpoint_seconds=0,
        )

    fit(log)
    for other in (Interactions.from_pairs(*rows, ordered=True), weighted):
        assert other.pairs_fingerprint == log.pairs_fingerprint
        with pytest.raises(StorageError, match="another run: its data is"):
            fit(other)
    path.unlink()
    fit(Interactions.from_pairs(*ids), 0.2)
    with pytest.raises(StorageError, match="another run: its held-out data is"):
        fit(Interactions.from_pairs(*rows), 0.2)  # the draw goes by the place in the row


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    fitted(checkpoint=path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(StorageError, match="cannot be read as a checkpoint"):
        fitted(checkpoint=path)


def test_the_best_validated_iterate_is_kept_and_patience_ends_training() -> None:
    ranker = fitted(valid=0.3, iterations=400, patience=3, learning_rate=0.2)
    curve = {
        r["iteration"]: r["validation"] for r in ranker.training_["reports"] if r["validation"]
    }
    best = max(curve, key=lambda iteration: (curve[iteration], -iteration))
    assert ranker.training_["best_iteration"] == best
    assert ranker.training_["iterations"] == best + 3 * SMALL["validate_every"] < 400

    train, held = validation_split(WORLD.train, 0.3, None, 0)
    ranker.interactions_ = train
    assert ranker.evaluate(held)["ndcg@20"] == pytest.approx(curve[best], abs=1e-12)


def test_without_validation_exactly_the_asked_iterations_are_made() -> None:
    assert fitted(iterations=7, patience=1).training_["iterations"] == 7


def test_held_out_items_are_not_trained_on_but_count_as_seen() -> None:
    ranker = fitted(valid=0.3)
    train, _ = validation_split(WORLD.train, 0.3, None, 0)
    assert same_vectors(fitted(valid=0.3), ranker)
    alone = Ranker("wd-lgcn", device="cpu", **SMALL).fit(train, WORLD.test)
    assert len(alone.interactions_) < len(ranker.interactions_) == len(WORLD.train)


@pytest.mark.parametrize("iterations", [1, 2, 30])
@pytest.mark.parametrize("valid", [None, 0.2])
def test_what_is_not_finite_stops_with_advice_and_is_never_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, iterations: int, valid: float | None
) -> None:
    path = tmp_path / "run.safetensors"
    monkeypatch.setattr(Number, "check", lambda *given: None)  # it would refuse such a rate
    with pytest.raises(TrainingError, match=r"no longer finite at iteration \d+: lower learn"):
        fitted(
            max_norm=None, learning_rate=1e39, iterations=iterations, valid=valid, checkpoint=path
        )
    assert not path.exists()


def test_norms_are_clipped_after_every_update() -> None:
    ranker = fitted(method="wd-mf", max_norm=0.5, learning_rate=0.3)
    for vectors in (ranker.scorer_.user_vectors, ranker.scorer_.item_vectors):
        norms = torch.linalg.vector_norm(vectors, dim=1)
        assert float(norms.max()) <= 0.5 + 1e-6
        assert float(norms.max()) > 0.49


def test_l2_pulls_the_vectors_in() -> None:
    free, pulled = (
        fitted(method="wd-mf", max_norm=None, l2=l2, iterations=100) for l2 in (0.0, 5.0)
    )
    assert pulled.scorer_.user_vectors.norm() < 0.5 * free.scorer_.user_vectors.norm()


def test_the_log_has_one_json_object_a_report(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    ranker = Ranker("wd-lgcn", device="cpu", **SMALL).fit(
        WORLD.train, 0.2, callbacks=[JsonLines(log)]
    )
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines == ranker.training_["reports"]
    assert [line["iteration"] for line in lines if line["validation"]] == list(range(5, 41, 5))


def test_interruption_ends_after_the_step_and_can_be_resumed(tmp_path: Path) -> None:
    import signal

    path = tmp_path / "run.safetensors"

    def press_ctrl_c(report: Report) -> None:
        if report.iteration == 20:
            signal.raise_signal(signal.SIGINT)

    ranker = Ranker("wd-lgcn", device="cpu", **SMALL)
    ranker.fit(WORLD.train, callbacks=[press_ctrl_c], checkpoint=path)
    assert ranker.training_["interrupted"]
    assert ranker.training_["iterations"] == 20
    assert same_vectors(ranker, fitted(iterations=20))
    assert same_vectors(fitted(checkpoint=path), fitted())


def test_a_second_ctrl_c_is_not_swallowed() -> None:
    import signal

    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever listened before
    try:
        with Interruption() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert interruption.requested
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, usual)


def test_an_interruption_inside_another_passes_ctrl_c_on() -> None:
    import signal

    usual = signal.getsignal(signal.SIGINT)
    with Interruption() as outer:
        with Interruption() as untouched:
            pass
        with Interruption() as inner:
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is usual  # the next one raises
        assert (outer.requested, inner.requested, untouched.requested) == (True, True, False)
    assert signal.getsignal(signal.SIGINT) is usual


def test_an_item_nobody_had_and_a_user_without_items_do_no_harm() -> None:
    data = replace(WORLD.train)
    empty_user = data.select(data.users != 0)
    ranker = Ranker("wd-lgcn", device="cpu", **SMALL).fit(empty_user)
    assert torch.isfinite(ranker.scorer_.user_vectors).all()
    assert ranker.recommend(0, k=5).height == 5


def test_one_user_with_every_item_trains_without_nan() -> None:
    everything = Interactions.from_pairs([0, 0, 0], [0, 1, 2])
    ranker = Ranker("wd-lgcn", device="cpu", dim=2, iterations=5).fit(everything)
    assert torch.isfinite(ranker.scorer_.item_vectors).all()
    assert ranker.recommend(0).height == 0


def test_a_snapshot_is_the_iterate_of_that_moment_and_changes_nothing() -> None:
    seen: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def look(iteration: int, seconds: float, users: torch.Tensor, items: torch.Tensor) -> None:
        seen[iteration] = (users.clone(), items.clone())

    watched = fitted(snapshots=Snapshots(frozenset({7, 20}), look))
    assert sorted(seen) == [7, 20]
    halfway = fitted(iterations=20).scorer_
    assert torch.equal(seen[20][0], halfway.user_vectors)
    assert torch.equal(seen[20][1], halfway.item_vectors)
    assert same_vectors(watched, fitted())


def test_the_clock_stands_while_a_snapshot_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    clock: list[float] = []

    def look(iteration: int, seconds: float, users: torch.Tensor, items: torch.Tensor) -> None:
        nonlocal now
        clock.append(seconds)
        now += 100.0

    def one_second_a_glance() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr("densirank.training.loop.time.perf_counter", one_second_a_glance)
    ranker = fitted(snapshots=Snapshots(frozenset({2, 4, 6}), look))
    assert clock[-1] < 100
    assert ranker.training_["seconds"] < 100
