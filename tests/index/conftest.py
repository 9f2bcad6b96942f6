from __future__ import annotations

from pathlib import Path

import pytest

from densirank import Ranker
from densirank.data.synthetic import planted


@pytest.fixture(scope="session")
def ranker() -> Ranker:
    """A model of 3,000 items, which is more than are simply all scored in the tests."""
    world = planted(150, 3000, items_per_user=15, test_items_per_user=1, seed=2)
    return Ranker("wd-mf", device="cpu", dim=8, iterations=20).fit(world.train)


@pytest.fixture
def folder(ranker: Ranker, tmp_path: Path) -> Path:
    ranker.save(tmp_path / "model")
    return tmp_path / "model"
