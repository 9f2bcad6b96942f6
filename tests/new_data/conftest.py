from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from densirank import Interactions, Ranker
from densirank.data.synthetic import Planted, planted

NEW = 25
"""People of the world that a model is fitted without."""


@pytest.fixture(scope="session")
def world() -> Planted:
    return planted(150, 60, items_per_user=12, test_items_per_user=4, concentration=2.5, seed=3)


@pytest.fixture(scope="session")
def there(world: Planted) -> Interactions:
    """What is known when a model is fitted."""
    return world.train.select(world.train.users >= NEW).compact()


@pytest.fixture(scope="session")
def newcomers(world: Planted) -> Interactions:
    """People who come later."""
    return world.train.select(world.train.users < NEW).compact()


@pytest.fixture(scope="session")
def fitted(there: Interactions) -> Callable[..., Ranker]:
    """A method, fitted once to all but the newcomers."""

    @cache
    def fit(method: str, **settings: Any) -> Ranker:
        chosen: dict[str, Any] = {"dim": 8, "iterations": 60, "learning_rate": 0.05} | settings
        return Ranker(method, device="cpu", **chosen).fit(there)

    return fit


@pytest.fixture(scope="session")
def scores_of() -> Callable[[Ranker], np.ndarray[Any, np.dtype[np.float32]]]:
    """All scores of a ranker's users, (users, items)."""
    import torch

    def scores(ranker: Ranker) -> np.ndarray[Any, np.dtype[np.float32]]:
        made: np.ndarray[Any, np.dtype[np.float32]] = ranker.scorer_.scores(
            torch.arange(ranker.scorer_.n_users)
        ).numpy()
        return made

    return scores
