from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from densirank.evaluation.reliability import draw


def table(frequency: list[float]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "predicted": [1e-5, 1e-3, 1e-1],
            "frequency": frequency,
            "standard_error": [1e-6, 1e-4, 1e-2],
        }
    )


def test_every_table_is_a_line_of_its_own_beside_the_diagonal(
    tmp_path: Path, drawn: list[Any]
) -> None:
    tables = {"as trained": table([4e-5, 1e-3, 5e-2]), "calibrated": table([1e-5, 0.0, 1e-1])}
    draw(tables, tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").read_bytes().startswith(b"\x89PNG")

    (panel,) = drawn[0].axes
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "log")
    assert panel.get_xlim() == panel.get_ylim()
    assert panel.get_xlim() == pytest.approx((5e-6, 0.2))
    labels = [text.get_text() for text in panel.get_legend().get_texts()]
    assert labels == ["as predicted", "as trained", "calibrated"]
    lines = {tuple(line.get_ydata()) for line in panel.lines if line.get_marker() in "xo"}
    assert {(4e-5, 1e-3, 5e-2), (1e-5, 0.0, 1e-1)} <= lines
    colours = {line.get_color() for line in panel.lines if line.get_marker() in "xo"}
    assert len(colours) == 2
