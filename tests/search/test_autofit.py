from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import densirank
from densirank import Interactions, Ranker, autofit
from densirank.data.splitting import validation_split
from densirank.errors import InputError, TrainingError
from densirank.fit import FitTask, Fitted, fit_scorer
from densirank.search import Trial
from densirank.search import autofit as autofit_module
from densirank.search.autofit import Nobody

SetClock = Callable[[float], None]
A_LOOK = 0.001


def _choice(ranker: Ranker) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    record = ranker.training_["automatic"]
    return record["attempts"][record["chosen"]], record["attempts"]


@pytest.mark.parametrize("ordered", [True, False])
def test_the_best_of_what_was_tried_is_fitted_to_all_data(
    log: Interactions, clock_by_looks: SetClock, ordered: bool
) -> None:
    data = replace(log, ordered=ordered, timestamps=None)
    clock_by_looks(A_LOOK)
    ranker = autofit(data, 0.15, device="cpu")
    best, tried = _choice(ranker)
    assert best["validation_ndcg@20"] == max(each["validation_ndcg@20"] for each in tried)
    assert sum(each["method"] == "densirank" for each in tried) >= 2
    assert [each["method"] for each in tried[:2]] == ["popularity", "popularity"]

    again = Ranker(best["method"], device="cpu", **best["settings"]).fit(data)
    np.testing.assert_array_equal(ranker.scorer_.user_vectors, again.scorer_.user_vectors)
    assert ranker.recommend(k=5).equals(again.recommend(k=5))
    np.testing.assert_array_equal(ranker.items_.counts, data.item_counts)
    if not ordered:
        assert not any(each["settings"].get("recency") for each in tried)
        assert not any(each["settings"]["filter_recency"] for each in tried)
        assert ranker.settings_.recency == ranker.settings_.filter_span == 0


def test_what_an_attempt_says_is_what_a_fit_without_the_held_out_items_has(
    log: Interactions, clock_by_looks: SetClock
) -> None:
    clock_by_looks(A_LOOK)
    _, tried = _choice(autofit(log, 0.15, device="cpu"))
    train, held_out = validation_split(log)
    for attempt in tried[:4]:
        ranker = Ranker(attempt["method"], device="cpu", **attempt["settings"]).fit(train)
        said = attempt["validation_ndcg@20"]
        assert ranker.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(said, abs=1e-6)


def test_the_same_clock_makes_the_same_choice(log: Interactions, clock_by_looks: SetClock) -> None:
    chosen = []
    for _ in range(2):
        clock_by_looks(A_LOOK)
        chosen.append(_choice(autofit(log, 0.08, device="cpu")))
    assert chosen[0] == chosen[1]


def test_more_time_is_more_attempts(log: Interactions, clock_by_looks: SetClock) -> None:
    counts = []
    for budget in (0.002, 0.05, 0.15):
        clock_by_looks(A_LOOK)
        counts.append(len(_choice(autofit(log, budget, device="cpu"))[1]))
    assert counts[0] == 1
    assert counts == sorted(set(counts))


def test_without_any_time_everybody_gets_what_is_popular(
    log: Interactions, clock_by_looks: SetClock
) -> None:
    clock_by_looks(1.0)
    ranker = autofit(log, 0.001, device="cpu")
    assert (ranker.method, ranker.settings_.filter_weight) == ("popularity", 0)
    plain = Ranker("popularity", device="cpu").fit(log)
    assert ranker.recommend(k=5).equals(plain.recommend(k=5))


def test_where_training_leads_nowhere_the_filter_is_chosen(
    log: Interactions, clock_by_looks: SetClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverging(task: FitTask) -> Fitted:
        if task.snapshots is None:
            raise TrainingError("the loss is no longer finite")
        return fit_scorer(task)

    monkeypatch.setattr(autofit_module, "fit_scorer", diverging)
    clock_by_looks(A_LOOK)
    ranker = autofit(log, 0.08, device="cpu")
    best, tried = _choice(ranker)
    assert {each["validation_ndcg@20"] for each in tried[2:]} == {0}
    assert best["method"] == "popularity"
    assert best["settings"]["filter_weight"] > 0
    assert (
        ranker.fold_in([("new", item) for item in log.item_ids.ids[:3]]).recommend(k=3).height == 3
    )


def test_a_rare_habit_is_left_to_the_filter(clock_by_looks: SetClock) -> None:
    """Each item is followed by its twin: of full rank, which few dimensions cannot hold."""
    random = np.random.default_rng(0)
    rows = [random.choice(300, 4, replace=False) for _ in range(300)]
    users = np.repeat(np.arange(300), 7)
    twins = [np.stack([2 * row, 2 * row + 1], axis=1).ravel() for row in rows]
    items = np.concatenate([row[1:] for row in twins])  # so that of the last pair, one is held out
    clock_by_looks(A_LOOK)
    best, tried = _choice(
        autofit(Interactions.from_pairs(users, items, ordered=True), 0.08, device="cpu")
    )
    assert best["settings"]["filter_weight"] >= 0.4
    assert best["validation_ndcg@20"] > 5 * tried[0]["validation_ndcg@20"]


def test_who_has_one_item_is_no_obstacle_and_gets_what_is_popular() -> None:
    ranker = autofit([(user, user % 3) for user in range(10)], 5, device="cpu")
    assert ranker.method == "popularity"
    assert ranker.training_["automatic"]["attempts"] == []
    assert ranker.recommend(1, k=1)["item_id"].to_list() == [0]


def test_interactions_of_their_own_may_judge(log: Interactions, clock_by_looks: SetClock) -> None:
    train, held_out = validation_split(log, 0.4)
    clock_by_looks(A_LOOK)
    ranker = autofit(train, 0.1, valid=held_out, device="cpu")
    first = _choice(ranker)[1][0]
    plain = Ranker("popularity", device="cpu").fit(train)
    assert plain.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(first["validation_ndcg@20"])
    assert len(ranker.interactions_) == len(train)


class Impatient(Nobody):
    """Presses Ctrl-C once so much was tried."""

    def __init__(self, after: int) -> None:
        self.after = after

    def tried(self, trials: Sequence[Trial]) -> None:
        if len(trials) == self.after:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("after", [1, 3])
def test_ctrl_c_ends_the_search_and_the_best_so_far_is_fitted(
    log: Interactions, clock_by_looks: SetClock, after: int
) -> None:
    clock_by_looks(A_LOOK)
    ranker = autofit(log, 5.0, device="cpu", watcher=Impatient(after))
    best, tried = _choice(ranker)
    assert len(tried) in (after, after + 1)  # the filter is looked at once it is there
    assert ranker.training_["automatic"]["search_interrupted"]
    assert not ranker.training_.get("interrupted", False)
    assert best["validation_ndcg@20"] == max(each["validation_ndcg@20"] for each in tried)


def test_the_choice_is_kept_with_the_model(
    log: Interactions, clock_by_looks: SetClock, tmp_path: Any
) -> None:
    clock_by_looks(A_LOOK)
    ranker = autofit(log, 0.08, device="cpu")
    ranker.save(tmp_path / "model")
    kept = densirank.load(tmp_path / "model", "cpu")
    assert kept.training_["automatic"] == ranker.training_["automatic"]
    assert kept.recommend(k=3).equals(ranker.recommend(k=3))


def test_bad_requests_are_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match="a budget is a time"):
        autofit("nowhere.csv", "now")
    with pytest.raises(InputError, match="there is no device"):
        autofit("nowhere.csv", device="abacus")
    with pytest.raises(InputError, match="seed"):
        autofit("nowhere.csv", seed=-1)


def test_an_attempt_that_takes_too_long_ends_the_search_and_is_not_kept(
    log: Interactions, clock_by_looks: SetClock
) -> None:
    class Slow(Nobody):
        """Makes the clock run once a model was trained."""

        def tried(self, trials: Sequence[Trial]) -> None:
            if len(trials) == 3:
                clock_by_looks(0.02)

    clock_by_looks(A_LOOK)
    unhurried = len(_choice(autofit(log, 0.15, device="cpu"))[1])
    clock_by_looks(A_LOOK)
    assert len(_choice(autofit(log, 0.15, device="cpu", watcher=Slow()))[1]) == 3 < unhurried
