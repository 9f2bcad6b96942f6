"""An index is as good as it says, and takes no more effort than was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from densirank import Ranker
from densirank.errors import InputError
from densirank.linalg.csr import RowsOnDemand
from densirank.ranking import approximate as search
from densirank.ranking import clusters
from densirank.ranking.approximate import search_top_k
from densirank.ranking.index import MeasuredIndex, build_index
from densirank.ranking.topk import top_k

pytest.importorskip("faiss")


def built(ranker: Ranker, kind: str, recall: float) -> MeasuredIndex:
    seen = RowsOnDemand(ranker.interactions_, ranker.scorer_.device)
    return build_index(ranker.scorer_, seen, kind, recall=recall)


def recall_over_everybody(ranker: Ranker, index: MeasuredIndex) -> float:
    """The same measure for all users, by sets."""
    scorer, users = ranker.scorer_, torch.arange(ranker.scorer_.n_users)
    seen = RowsOnDemand(ranker.interactions_, scorer.device)
    (exact,) = top_k(scorer, users, 20, seen=seen)
    (found,) = search_top_k(index.index, scorer, users, 20, seen=seen)
    hits = [
        len(set(a) & set(b)) / 20
        for a, b in zip(exact.items.tolist(), found.items.tolist(), strict=True)
    ]
    return sum(hits) / len(hits)


@pytest.mark.parametrize("kind", ["hnsw", "clusters"])
def test_the_measured_recall_is_that_of_everybody(ranker: Ranker, kind: str) -> None:
    index = built(ranker, kind, 0.9)
    assert index.measured.users == 75  # one half chose the effort, the other measured
    assert index.measured.recall == pytest.approx(recall_over_everybody(ranker, index), abs=0.05)
    assert index.measured.mib == index.index.n_bytes / 2**20


def test_a_higher_wanted_recall_takes_more_effort_and_is_reached(
    ranker: Ranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MARGIN", 20)  # or else so few items are all read at any effort
    monkeypatch.setattr(clusters, "ENOUGH", 1)
    low, high = built(ranker, "clusters", 0.3), built(ranker, "clusters", 0.995)
    assert low.measured.effort < high.measured.effort
    assert low.measured.recall < high.measured.recall
    assert high.measured.recall > 0.98
    assert high.index.effort == high.measured.effort


def test_what_cannot_be_built_is_refused_in_a_sentence(ranker: Ranker) -> None:
    with pytest.raises(InputError, match="no index of kind 'tree'; choose hnsw or clusters"):
        built(ranker, "tree", 0.9)
    with pytest.raises(InputError, match=r"above 0 and at most 1, not 1\.5"):
        built(ranker, "hnsw", 1.5)
    no_dimensions = replace(
        ranker.scorer_, user_vectors=torch.zeros(3, 0), item_vectors=torch.zeros(5, 0)
    )
    seen = RowsOnDemand(ranker.interactions_, ranker.scorer_.device)
    with pytest.raises(InputError, match="no vectors to index"):
        build_index(no_dimensions, seen, "clusters")
