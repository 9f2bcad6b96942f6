"""Both kinds of index against all inner products."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from densirank.errors import StorageError
from densirank.ranking.approximate import Index
from densirank.ranking.clusters import Clusters, of_equal_length
from densirank.ranking.hnsw import Hnsw
from densirank.scores import VectorScorer

pytest.importorskip("faiss")

KINDS: list[type[Index]] = [Hnsw, Clusters]


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.kind)
def index(request: pytest.FixtureRequest, scorer: VectorScorer) -> Index:
    kind: type[Index] = request.param
    return kind.build(scorer.item_vectors)


def recall(index: Index, scorer: VectorScorer, n: int) -> float:
    """The share of the n largest products that a search finds."""
    exact = (scorer.user_vectors @ scorer.item_vectors.T).topk(n, dim=1).indices.tolist()
    found = index.nearest(scorer.user_vectors, n).tolist()
    hits = [len(set(a) & set(b)) for a, b in zip(exact, found, strict=True)]
    return sum(hits) / (n * len(hits))


def test_the_added_coordinate_makes_lengths_equal(scorer: VectorScorer) -> None:
    items = of_equal_length(scorer.item_vectors)
    assert torch.equal(items[:, :-1], scorer.item_vectors)
    lengths = items.norm(dim=1)
    torch.testing.assert_close(lengths, scorer.item_vectors.norm(dim=1).max().expand_as(lengths))


def test_more_effort_finds_more_until_nearly_all_is_found(
    index: Index, scorer: VectorScorer
) -> None:
    index.effort = index.efforts[0]
    little = recall(index, scorer, 20)
    index.effort = index.efforts[-1]
    much = recall(index, scorer, 20)
    assert 0.2 < little <= much
    assert much > 0.99


def test_a_search_names_distinct_items_of_the_catalogue(index: Index, scorer: VectorScorer) -> None:
    index.effort = index.efforts[0]
    for n in (1, 7, 300):
        found = index.nearest(scorer.user_vectors, n)
        assert found.shape == (scorer.n_users, n)
        for row in found.tolist():
            named = [item for item in row if item >= 0]
            assert len(set(named)) == len(named)
            assert all(item < scorer.n_items for item in named)


def test_an_index_asked_for_everything_gives_no_more_than_there_is() -> None:
    vectors = torch.eye(5)
    for kind in KINDS:
        found = kind.build(vectors).nearest(vectors[:2], 9)
        assert [sorted(row) for row in found.tolist()] == [[0, 1, 2, 3, 4]] * 2


def test_an_index_comes_back_from_its_file(
    index: Index, scorer: VectorScorer, tmp_path: Path
) -> None:
    index.effort = index.efforts[1]
    index.save(tmp_path / "index")
    back = type(index).load(tmp_path / "index", scorer.item_vectors)
    back.effort = index.effort
    found = index.nearest(scorer.user_vectors, 30)
    assert torch.equal(back.nearest(scorer.user_vectors, 30), found)
    assert back.n_items == index.n_items == scorer.n_items
    assert back.n_bytes == index.n_bytes > 0


def test_the_file_of_another_catalogue_is_refused(
    index: Index, scorer: VectorScorer, tmp_path: Path
) -> None:
    path = tmp_path / "index"
    index.save(path)
    with pytest.raises(StorageError, match="not an index of the model's items"):
        type(index).load(path, scorer.item_vectors[:-1])
    path.write_bytes(b"nothing of the kind")
    with pytest.raises(StorageError, match="not a readable"):
        type(index).load(path, scorer.item_vectors)


def test_clusters_hold_every_item_once(scorer: VectorScorer, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    Clusters.build(scorer.item_vectors).save(tmp_path / "clusters")
    items = load_file(tmp_path / "clusters")["items"]
    assert items.sort().values.tolist() == list(range(scorer.n_items))
