from __future__ import annotations

import math

import pytest
import torch

from densirank import Interactions, Ranker
from densirank.data.splitting import validation_split
from densirank.data.synthetic import planted
from densirank.search.judge import FEWEST, Judge, popularity_scorer

CPU = torch.device("cpu")


def test_a_verdict_is_the_ndcg_that_evaluate_says(log: Interactions) -> None:
    train, held_out = validation_split(log)
    judge = Judge.of(train, held_out, CPU, math.inf)
    ranker = Ranker("popularity", device="cpu").fit(train)
    assert judge(popularity_scorer(train, CPU)) == pytest.approx(
        ranker.evaluate(held_out, 20)["ndcg@20"]
    )


def test_without_time_few_users_judge() -> None:
    world = planted(FEWEST + 40, 30, items_per_user=4, seed=1)
    judge = Judge.of(world.train, world.test, CPU, 0.0)
    assert len(judge.users) == len(set(judge.users.tolist())) == FEWEST
