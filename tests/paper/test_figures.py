"""Figures from planted records: they are there, hold the points, and are the same every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paper.figures import (
    Series,
    curves,
    draw_efficiency,
    draw_sensitivity,
    sensitivities,
)
from paper.records import CurveRecord, Records, SensitivityRecord, Trial

SHARED: dict[str, Any] = {
    "dataset": "elsewhere",
    "seed": 0,
    "settings": {"max_norm": 4.5, "iterations": 90},
    "train_fingerprint": "a",
    "versions": {},
    "hardware": {},
}
POINTS = [[1.0, 0.5, 0.1], [10.0, 2.5, 0.2]]
TRIALS = [
    Trial({}, 0.15, 90, 1.0),
    Trial({"max_norm": 5.0}, 0.14, 90, 1.0),
    Trial({"max_norm": None}, 0.12, 90, 1.0),
    Trial({"max_norm": 1.0}, 0.1, 90, 1.0),
]
FAILED = Trial({"max_norm": None}, None, None, 1.0, failed="no longer finite")


@pytest.fixture
def records(tmp_path: Path) -> Records:
    records = Records(tmp_path / "records")
    for method in ("wd-lgcn", "lightgcn-ans"):
        records.keep(CurveRecord(method=method, **SHARED, test_fingerprint="b", points=POINTS))
    records.keep(SensitivityRecord(method="pde-lgcn", **SHARED, trials=TRIALS, chosen=0))
    failing = [*TRIALS[:2], FAILED]
    records.keep(SensitivityRecord(method="wd-lgcn", **SHARED, trials=failing, chosen=0))
    return records


def test_a_figure_is_a_picture_and_a_drawing(records: Records, tmp_path: Path) -> None:
    series = sensitivities(records, ["elsewhere"], None)
    png, svg = draw_sensitivity(series, tmp_path / "figures")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text()


def test_a_drawing_changes_with_its_points_and_with_nothing_else(tmp_path: Path) -> None:
    one = Series("elsewhere", "wd-lgcn", [[1.0, 0.5, 0.1], [10.0, 2.5, 0.2]])
    other = Series("elsewhere", "wd-lgcn", [[1.0, 0.5, 0.15], [10.0, 2.5, 0.2]])
    drawn = [
        draw_efficiency([series], tmp_path / str(place))[1].read_bytes()
        for place, series in enumerate((one, one, other))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_points_are_those_of_the_records(records: Records) -> None:
    sets = ["nowhere", "elsewhere"]
    assert curves(records, sets, ["wd-lgcn"]) == [Series("elsewhere", "wd-lgcn", [*POINTS])]
    assert [one.method for one in curves(records, sets, None)] == ["wd-lgcn", "lightgcn-ans"]
    by_norm = {one.method: one.points for one in sensitivities(records, sets, None)}
    assert by_norm == {
        "pde-lgcn": [[1.0, 0.1], [4.5, 0.15], [5.0, 0.14], [None, 0.12]],
        "wd-lgcn": [[4.5, 0.15], [5.0, 0.14], [None, None]],
    }
