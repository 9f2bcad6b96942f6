"""Every metric against trec_eval (through ir-measures) and against sets written out by hand."""

from __future__ import annotations

import ir_measures
import numpy as np
import pytest
import torch
from ir_measures import AP, RR, P, R, Success, nDCG

from densirank import Interactions
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.scores import VectorScorer

CPU = torch.device("cpu")
MEASURES = {"recall": R, "precision": P, "ndcg": nDCG, "map": AP, "mrr": RR, "hit_rate": Success}


def random_case(seed: int) -> tuple[Interactions, Interactions, VectorScorer]:
    world = planted(40, 60, items_per_user=8, test_items_per_user=5, seed=seed)
    random = torch.Generator().manual_seed(seed)
    scorer = VectorScorer(
        torch.randn(40, 4, generator=random), torch.randn(60, 4, generator=random)
    )
    return world.train, world.test, scorer


@pytest.mark.parametrize("k", [1, 3, 5, 20])
def test_every_metric_equals_trec_eval(k: int) -> None:
    train, test, scorer = random_case(k)
    result = HeldOut(test, train, CPU).evaluate(scorer, k)

    scores = scorer.scores(torch.arange(40)).numpy()
    run, truth = [], []
    for user in range(40):
        unseen = np.setdiff1d(np.arange(60), train.items_of(user))
        run += [ir_measures.ScoredDoc(f"u{user}", f"i{i}", float(scores[user, i])) for i in unseen]
        truth += [ir_measures.Qrel(f"u{user}", f"i{i}", 1) for i in test.items_of(user)]
    for name, measure in MEASURES.items():
        oracle = {
            int(row.query_id[1:]): row.value
            for row in ir_measures.iter_calc([measure @ k], truth, run)
        }
        ours = dict(zip(result.users.tolist(), result.per_user[name].tolist(), strict=True))
        assert ours == pytest.approx(oracle, abs=1e-9), name


def test_results_do_not_depend_on_the_memory_budget() -> None:
    train, test, scorer = random_case(7)
    exact = VectorScorer(scorer.user_vectors.round(), scorer.item_vectors.round())
    held_out = HeldOut(test, train, CPU)
    whole = held_out.evaluate(exact, 10).summary()
    for budget in (1, 5_000, 12_345):
        assert held_out.evaluate(exact, 10, budget_bytes=budget).summary() == whole


def test_a_perfect_and_a_hopeless_ranking() -> None:
    train = Interactions.from_pairs([0, 0, 1, 1, 2], [0, 1, 2, 3, 4])
    test = Interactions.from_pairs([0, 0, 1], [2, 3, 0])
    held_out = HeldOut(test, train, CPU)
    relevance = torch.tensor([[0.0, 0, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]])
    perfect = held_out.evaluate(VectorScorer(relevance, torch.eye(5)), 2).summary()
    assert perfect["recall@2"] == perfect["ndcg@2"] == perfect["mrr@2"] == perfect["map@2"] == 1
    assert perfect["precision@2"] == pytest.approx(0.75)
    assert perfect["users"] == 2
    hopeless = held_out.evaluate(VectorScorer(-relevance, torch.eye(5)), 1).summary()
    assert hopeless["recall@1"] == hopeless["ndcg@1"] == hopeless["hit_rate@1"] == 0


def test_coverage_and_popularity_speak_of_the_lists() -> None:
    train = Interactions.from_pairs([0, 1, 2, 3, 0], [0, 0, 0, 1, 2])
    test = Interactions.from_pairs([1, 2], [1, 1])
    likes_1_then_2 = VectorScorer(torch.ones(4, 1), torch.tensor([[0.0], [2.0], [1.0]]))
    summary = HeldOut(test, train, CPU).evaluate(likes_1_then_2, 1).summary()
    assert summary["coverage@1"] == pytest.approx(1 / 3)
    assert summary["popularity@1"] == 1  # item 1 was had once in train


def test_what_the_model_does_not_know_is_counted_and_missed() -> None:
    train = Interactions.from_pairs(["a", "b"], ["x", "y"])
    test = Interactions.from_pairs(["a", "a", "stranger", "b"], ["y", "novelty", "x", "y"])
    held_out = HeldOut(test, train, CPU)
    assert (held_out.unknown_users, held_out.unknown_items) == (1, 1)
    assert held_out.seen_pairs() == 1  # (b, y) was trained on
    scorer = VectorScorer(torch.ones(2, 1), torch.ones(2, 1))
    result = held_out.evaluate(scorer, 1)
    assert result.users.tolist() == [0, 1]
    assert result.per_user["recall"].tolist() == [0.5, 0.0]


def test_a_test_set_of_strangers_is_refused() -> None:
    train = Interactions.from_pairs(["a"], ["x"])
    with pytest.raises(InputError, match="none of the held-out users"):
        HeldOut(Interactions.from_pairs(["z"], ["x"]), train, CPU)
