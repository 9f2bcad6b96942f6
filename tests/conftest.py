from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import settings

if TYPE_CHECKING:
    from densirank import Interactions, Ranker
    from densirank.data.synthetic import Planted

if not torch.cuda.is_available():  # kernels are interpreted then; they decide when first imported
    os.environ["TRITON_INTERPRET"] = "1"

settings.register_profile("explore", settings.get_profile("ci"), derandomize=False)
settings.load_profile("ci")
"""The same examples in every run, without limits of time: the result of a run says something about
the code, not about luck or the machine. ``--hypothesis-profile explore`` tries new examples."""

TOOLS = str(Path(__file__).with_name("tools"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [TOOLS, os.environ.get("PYTHONPATH")]))
"""Scripts that tests start find there what tests find."""


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tensors in tests are tiny: threads that wait for each other would cost ten times the work."""
    torch.set_num_threads(1)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that are saved, so that what is in them can be looked at."""
    figures: list[Any] = []
    figure = pytest.importorskip("matplotlib.figure").Figure
    save = figure.savefig

    def keep(self: Any, *places: Any, **options: Any) -> None:
        figures.append(self)
        save(self, *places, **options)

    monkeypatch.setattr(figure, "savefig", keep)
    return figures


# --- a small world, and people who come after the fit --------------------------------------------

NEW = 25
"""People of the world that a model is fitted without."""


@pytest.fixture(scope="session")
def world() -> Planted:
    from densirank.data.synthetic import planted

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

    from densirank import METHODS, Ranker

    @cache
    def fit(method: str, **settings: Any) -> Ranker:
        chosen: dict[str, Any] = {"dim": 8, "iterations": 60, "learning_rate": 0.05} | settings
        return Ranker(method, device="cpu", **METHODS[method].own(chosen)).fit(there)

    return fit


@pytest.fixture(scope="session")
def scores_of() -> Callable[[Ranker], np.ndarray[Any, np.dtype[np.float32]]]:
    """All scores of a ranker's users, (users, items)."""

    def scores(ranker: Ranker) -> np.ndarray[Any, np.dtype[np.float32]]:
        made: np.ndarray[Any, np.dtype[np.float32]] = ranker.scorer_.scores(
            torch.arange(ranker.scorer_.n_users)
        ).numpy()
        return made

    return scores
