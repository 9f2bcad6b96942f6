from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from densirank import Interactions, Ranker
from densirank.automatic.filtering import NOTHING, WEIGHTS, FilterChoice, FilterUse
from densirank.automatic.judging import Judge, popularity_scorer
from densirank.data.splitting import validation_split
from densirank.data.synthetic import planted
from densirank.filters.similarity import FilterKind

CPU = torch.device("cpu")


def _always() -> bool:
    return True


def _never(seconds: float) -> bool:
    return False


@pytest.mark.parametrize("method", ["popularity", "densirank"])
def test_what_is_chosen_beside_vectors_is_what_a_fit_with_it_has(
    log: Interactions, method: str
) -> None:
    train, held_out = validation_split(log)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)
    size: dict[str, Any] = {"dim": 8, "iterations": 20} if method == "densirank" else {}
    plain = Ranker(method, device="cpu", **(size | NOTHING.settings)).fit(train)
    start = FilterUse(0.3, 2.0, 8)
    how, ndcg = choice.beside(plain.scorer_, start, _always)
    fitted = Ranker(method, device="cpu", **(size | how.settings)).fit(train)
    assert fitted.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(ndcg, abs=1e-6)
    others = [
        choice.beside(plain.scorer_, replace(start, weight=w), lambda: False)[1] for w in WEIGHTS
    ]
    assert ndcg >= others[WEIGHTS.index(start.weight)]
    assert ndcg in others


def test_without_an_order_nothing_of_time_is_chosen(log: Interactions) -> None:
    unordered = replace(log, ordered=False, timestamps=None)
    train, held_out = validation_split(unordered)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)
    how, _ = choice.alone(popularity_scorer(train, CPU), _always, _never)
    assert (how.recency, how.span) == (0, 0)
    assert how.weight > 0


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
    by_mild, ndcg_by_mild = choice.alone(popularity, _always, _never)
    how, ndcg = choice.alone(popularity, _always, lambda seconds: seconds > 0)
    assert by_mild.kind == "mild"
    assert how.kind == kind
    assert (ndcg > ndcg_by_mild) == (kind == "ridge")
    fitted = Ranker("popularity", device="cpu", **how.settings).fit(train)
    assert fitted.evaluate(held_out, 20)["ndcg@20"] == pytest.approx(ndcg, abs=1e-6)


def test_with_an_order_a_ridge_is_not_built(log: Interactions) -> None:
    train, held_out = validation_split(log)
    choice = FilterChoice(Judge.of(train, held_out, CPU, math.inf), CPU)

    def time_to_build(seconds: float) -> bool:
        raise AssertionError("nothing is to be built")

    how, _ = choice.alone(popularity_scorer(train, CPU), _always, time_to_build)
    assert how.kind == "mild"


def test_a_large_weight_leaves_the_order_to_the_filter(log: Interactions) -> None:
    """FilterUse two different vectors, what the filter knows is in the same order."""
    alone = FilterUse(WEIGHTS[-1]).settings
    trained: dict[str, Any] = {"dim": 8, "iterations": 5}
    rankers = (
        Ranker("popularity", device="cpu", **alone),
        Ranker("densirank", device="cpu", **(trained | alone)),
    )
    tops = [ranker.fit(log).recommend(k=5)["item_id"].to_numpy() for ranker in rankers]
    assert (tops[0] == tops[1]).mean() > 0.95
