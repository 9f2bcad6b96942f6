"""A history is in order of time, oldest first, at every door; and all that a fit weighs by counts.

Each of these fails if folding in forgets the recency of positives, the recency of the filter, or
the base density.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from typer.testing import CliRunner

from densirank import Interactions, Ranker
from densirank.cli.app import app
from densirank.data.synthetic import planted
from densirank.linalg.csr import Rows
from densirank.models.base import Trained
from densirank.ranking.fold_in import new_users
from densirank.risks import density
from densirank.risks.positives import Positives
from densirank.risks.weighting import Weighting
from densirank.serving.app import ServeConfig, create_app

WORLD = planted(80, 50, items_per_user=9, test_items_per_user=1, seed=6).train
IN_ORDER = replace(WORLD, ordered=True)
BACKWARDS = Interactions.from_codes(
    WORLD.users[::-1], WORLD.items[::-1], WORLD.user_ids, WORLD.item_ids, ordered=True
)
SETTINGS: dict[str, Any] = {"dim": 6, "iterations": 30, "users_per_batch": 40}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    """With recency in the risk and in the filter, and with a base density."""
    return Ranker("densirank", device="cpu", **SETTINGS, base_exponent=0.5).fit(IN_ORDER)


def _own_risk(trained: Trained, histories: Interactions, own: torch.Tensor) -> float:
    """The users' part of the objective with everything that was asked for, by the dense reference.

    The vectors are free here (matrix factorisation): e_u = x_u.
    """
    weighting = Weighting.of_new_users(histories, trained.items.counts, trained.settings, CPU)
    rows = Rows.of(histories, CPU)
    positives = Positives(
        rows.indptr,
        rows.columns,
        histories.n_items,
        weights=weighting.pairs,
        log_base=weighting.log_base,
    )
    items = trained.item_vectors.double()
    penalty = trained.settings.l2 / 2 * own.double().square().sum(dim=1).mean()
    return float(density.pde_risk(own.double(), items, positives) + penalty)


@pytest.mark.parametrize(
    "forgotten", [{"recency": 0.0}, {"base_exponent": 0.0}], ids=["recency", "base"]
)
def test_the_folded_in_vector_has_the_least_risk_with_all_weights(
    forgotten: dict[str, float],
) -> None:
    settings: dict[str, Any] = {"dim": 6, "iterations": 30, "recency": 4.0, "base_exponent": 2.0}
    ranker = Ranker("pde-mf", device="cpu", **settings).fit(IN_ORDER)
    trained = ranker.trained
    best = new_users(trained, IN_ORDER).own
    without = replace(trained, settings=ranker.spec.settings(**(settings | forgotten)))
    other = new_users(without, IN_ORDER).own
    assert _own_risk(trained, IN_ORDER, best) < _own_risk(trained, IN_ORDER, other) - 1e-3


def test_the_filters_recency_counts_for_those_who_are_folded_in() -> None:
    """The filter's part of a user's scores is the same for the user's history as it was trained."""
    plain: dict[str, Any] = {"dim": 1, "iterations": 1, "l2": 0.0}
    ranker = Ranker(
        "wd-mf", device="cpu", **plain, filter_weight=1.0, filter_recency=5.0, filter_span=3
    ).fit(IN_ORDER)
    folded = ranker.fold_in(IN_ORDER)
    everybody = torch.arange(WORLD.n_users)
    parts = []
    for one in (ranker, folded):
        scorer = one.scorer_
        dots = scorer.user_vectors @ scorer.item_vectors.T
        part = scorer.scores(everybody) - dots
        parts.append(part / part.std(dim=1, keepdim=True))
    torch.testing.assert_close(parts[0], parts[1], rtol=1e-3, atol=1e-4)
    backwards = ranker.fold_in(BACKWARDS).scorer_
    dots = backwards.user_vectors @ backwards.item_vectors.T
    part = backwards.scores(everybody) - dots
    assert not torch.allclose(part / part.std(dim=1, keepdim=True), parts[0], atol=1e-2)


def test_explaining_uses_the_persons_own_order(ranker: Ranker) -> None:
    """Contributions are differences of folded-in scores, of histories in the order they have."""
    user = WORLD.user_ids[3]
    history = [WORLD.item_ids[int(i)] for i in WORLD.items_of(3)]
    item = ranker.recommend(user, k=1)["item_id"][0]

    def score(items: list[int | str]) -> float:
        return float(ranker.fold_in([("x", i) for i in items]).scores("x", item)[0])

    explained = dict(ranker.explain(user, item, k=20).iter_rows())
    for past in history:
        expected = score(history) - score([i for i in history if i != past])
        assert explained[past] == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_the_three_doors_read_a_history_alike_and_its_order_counts(
    ranker: Ranker, tmp_path: Path
) -> None:
    ranker.save(tmp_path / "model")
    differ = 0
    with TestClient(create_app(ServeConfig(tmp_path / "model", watch_seconds=0))) as client:
        for user in range(8):
            history = [int(WORLD.item_ids[int(i)]) for i in WORLD.items_of(user)]
            python = ranker.fold_in([(0, i) for i in history]).recommend(0, k=8)
            words = ["recommend", str(tmp_path / "model"), "-k", "8", "--json", "--device", "cpu"]
            done = CliRunner().invoke(app, [*words, "--history", ",".join(map(str, history))])
            command = json.loads(done.stdout)
            answer = client.post("/v1/recommend", json={"histories": [history], "k": 8}).json()
            served = answer["results"][0]["items"]
            listed = python["item_id"].to_list()
            assert [row["item_id"] for row in command] == listed
            assert [item["id"] for item in served] == listed
            for found in (command, served):
                given = [row["probability"] for row in found]
                np.testing.assert_allclose(given, python["probability"], rtol=1e-4)
            backwards = ranker.fold_in([(0, i) for i in history[::-1]]).recommend(0, k=8)
            differ += backwards["item_id"].to_list() != listed
    assert differ >= 6
