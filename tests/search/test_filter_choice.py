from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from densirank import Interactions, Ranker
from densirank.data.splitting import validation_split
from densirank.data.synthetic import planted
from densirank.filters.similarity import FilterKind
from densirank.search.filter_choice import NO_FILTER, WEIGHTS, FilterChoice
from densirank.search.judge import Judge, popularity_scorer

CPU = torch.device("cpu")


def _always() -> bool:
    return True


def _never(seconds: float) -> bool:
    return False


@pytest.mark.parametrize("method", ["popularity", "densirank"])
def test_what_is_chosen_for_vectors_is_what_a_fit_with_it_has(
    log: Interactions, method: str
) -> None:
    train, held_out = validation_split(log)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)
    size: dict[str, Any] = {"dim": 8, "iterations": 20} if method == "densirank" else {}
    plain = Ranker(method, device="cpu", **(size | NO_FILTER)).fit(train)
    start = NO_FILTER | {"filter_weight": 0.3, "filter_recency": 2.0, "filter_span": 8}
    best = choice.best_for(plain.scorer_, [start], _always)
    fitted = Ranker(method, device="cpu", **(size | best.settings)).fit(train)
    assert fitted.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(best.ndcg, abs=1e-6)
    starts = [start | {"filter_weight": weight} for weight in WEIGHTS]
    others = [choice.best_for(plain.scorer_, [each], lambda: False).ndcg for each in starts]
    assert best.ndcg >= others[WEIGHTS.index(0.3)]
    assert best.ndcg in others


def test_without_an_order_nothing_of_time_is_chosen(log: Interactions) -> None:
    unordered = replace(log, ordered=False, timestamps=None)
    train, held_out = validation_split(unordered)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)
    how = choice.alone(popularity_scorer(train, CPU), _always, _never).settings
    assert (how["filter_recency"], how["filter_span"]) == (0, 0)
    assert how["filter_weight"] > 0


FEW_PEOPLE = planted(80, 50, rank=4, items_per_user=10, concentration=2.0, seed=3).train
ONE_TASTE_EACH = planted(
    300, 60, rank=3, items_per_user=12, concentration=4.0, popularity_exponent=1.0, seed=2
).train


@pytest.mark.parametrize(("world", "kind"), [(FEW_PEOPLE, "ridge"), (ONE_TASTE_EACH, "mild")])
def test_without_an_order_the_better_kind_is_chosen_where_there_is_time_to_build_both(
    world: Interactions, kind: FilterKind
) -> None:
    train, held_out = validation_split(replace(world, ordered=False, timestamps=None))
    popularity = popularity_scorer(train, CPU)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)
    by_mild = choice.alone(popularity, _always, _never)
    best = choice.alone(popularity, _always, lambda seconds: seconds > 0)
    assert by_mild.settings["filter_kind"] == "mild"
    assert best.settings["filter_kind"] == kind
    assert (best.ndcg > by_mild.ndcg) == (kind == "ridge")
    fitted = Ranker("popularity", device="cpu", **best.settings).fit(train)
    assert fitted.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(best.ndcg, abs=1e-6)


def test_with_an_order_a_ridge_is_not_built(log: Interactions) -> None:
    train, held_out = validation_split(log)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)

    def time_to_build(seconds: float) -> bool:
        raise AssertionError("nothing is to be built")

    best = choice.alone(popularity_scorer(train, CPU), _always, time_to_build)
    assert best.settings["filter_kind"] == "mild"


def test_a_large_weight_leaves_the_order_to_the_filter(log: Interactions) -> None:
    """With two different sets of vectors, what the filter knows is in the same order."""
    alone = NO_FILTER | {"filter_weight": WEIGHTS[-1]}
    trained: dict[str, Any] = {"dim": 8, "iterations": 5}
    rankers = (
        Ranker("popularity", device="cpu", **alone),
        Ranker("densirank", device="cpu", **(trained | alone)),
    )
    tops = [ranker.fit(log).recommend(k=5)["item_id"].to_numpy() for ranker in rankers]
    assert (tops[0] == tops[1]).mean() > 0.95
