"""An index beside its model: it comes back with it, and never with another."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from densirank import Ranker, load
from densirank.errors import InputError, StorageError

pytest.importorskip("faiss")

COLUMNS = ["user_id", "item_id", "score", "rank"]


def with_index(folder: Path, kind: str = "clusters", recall: float = 1.0) -> Ranker:
    ranker = load(folder, "cpu").build_index(kind, recall=recall)
    ranker.save(folder)
    return ranker


@pytest.mark.parametrize("kind", ["hnsw", "clusters"])
def test_an_index_comes_back_with_its_model_and_agrees_with_exact(folder: Path, kind: str) -> None:
    built = with_index(folder, kind)
    back = load(folder, "cpu")
    assert back.index_ is not None
    assert built.index_ is not None
    assert back.index_.measured == built.index_.measured
    found, exact = back.recommend(k=20, approximate=True), back.recommend(k=20)
    assert_frame_equal(found, built.recommend(k=20, approximate=True))
    assert found["probability"].null_count() == found.height
    if kind == "clusters":  # at the full effort it reads half of them, which here is enough
        both = exact.join(found, on=["user_id", "item_id"])
        assert both.height > 0.98 * exact.height
        assert_frame_equal(
            both["score"].to_frame(),
            both["score_right"].alias("score").to_frame(),
            rel_tol=1e-5,
            abs_tol=1e-6,
        )


def test_filters_hold_and_every_list_is_full(folder: Path) -> None:
    ranker = with_index(folder, "hnsw", 0.9)
    best = ranker.recommend(k=3)["item_id"].unique().to_list()
    found = ranker.recommend(k=20, approximate=True, exclude=best)
    assert found.group_by("user_id").len()["len"].unique().to_list() == [20]
    assert not set(found["item_id"]) & set(best)
    had = pl.DataFrame(
        list(ranker.interactions_.pairs()), schema=["user_id", "item_id"], orient="row"
    )
    assert found.join(had, on=["user_id", "item_id"]).height == 0
    few = ranker.recommend(k=20, approximate=True, items=best[:5])
    assert_frame_equal(
        few[COLUMNS], ranker.recommend(k=20, items=best[:5])[COLUMNS], rel_tol=1e-5, abs_tol=1e-6
    )


def test_a_replaced_model_takes_its_index_along(folder: Path) -> None:
    with_index(folder)
    other = Ranker("popularity", device="cpu").fit([(1, 2), (1, 3), (2, 2)])
    other.save(folder)
    assert not list(folder.glob("index*"))
    with pytest.raises(InputError, match="no index of its vectors: build one"):
        load(folder, "cpu").recommend(approximate=True)


def test_the_index_of_other_vectors_is_not_used(folder: Path) -> None:
    with_index(folder)
    manifest = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps(manifest | {"vectors": "0" * 64}))
    assert load(folder, "cpu").index_ is None


def test_an_index_does_not_outlive_a_new_fit(ranker: Ranker) -> None:
    pairs = [(u, i) for u in range(6) for i in range(8) if (u + i) % 3]
    refitted = Ranker("wd-mf", device="cpu", dim=4, iterations=3).fit(pairs)
    refitted.build_index("clusters")
    assert refitted.index_ is not None
    refitted.fit(pairs)
    assert refitted.index_ is None


def test_a_model_loaded_before_its_folder_was_replaced_uses_no_foreign_index(folder: Path) -> None:
    before = load(folder, "cpu")
    other = Ranker("wd-mf", device="cpu", dim=4, iterations=3).fit([(1, 2), (1, 3), (2, 2)])
    other.build_index("clusters").save(folder)
    assert before.index_ is None


def test_a_damaged_index_is_refused_when_it_is_wanted_and_only_then(folder: Path) -> None:
    with_index(folder)
    (path,) = folder.glob("index-*")
    path.write_bytes(path.read_bytes()[:-1])
    ranker = load(folder, "cpu")
    assert ranker.recommend(k=2).height == 300
    with pytest.raises(StorageError, match=f"{path.name} is damaged"):
        ranker.recommend(k=2, approximate=True)


def test_building_again_leaves_one_index(folder: Path) -> None:
    with_index(folder, "clusters")
    with_index(folder, "hnsw", 0.8)
    assert [path.suffix for path in folder.glob("index-*")] == [".faiss"]
