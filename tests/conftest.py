from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

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
