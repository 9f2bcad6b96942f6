"""The figures of README.md are those of the records, and of the papers they name."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from paper.records import NDCG, RECALL, Records

ROOT = Path(__file__).parents[2]
SETS = ("gowalla", "yelp2018")
RUNS = {
    "densirank": "densirank",
    "densirank-blind": "densirank-blind",
    "densirank's pde-lgcn": "pde-lgcn",
    "densirank's wd-lgcn": "wd-lgcn",
}
TIMED = {
    "densirank's wd-lgcn, defaults": "wd-lgcn, 100 iterations",
    "densirank's item filter alone": "item filter alone",
}


@cache
def _record(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "records" / f"{name}.json").read_text())


def _shown(recall: float, ndcg: float) -> str:
    return f"{recall:.4f} / {ndcg:.4f}".replace("0.", ".")


def _rows() -> dict[str, list[str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line.replace("**", "").split("|")[1:-1] for line in text.splitlines() if "|" in line]
    return {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in rows}


@pytest.mark.parametrize("row", RUNS)
def test_a_row_of_runs_is_the_mean_over_their_seeds(row: str) -> None:
    for name, found in zip(SETS, _rows()[row][2:4], strict=True):
        runs = Records(ROOT / "results").runs(name, RUNS[row])
        assert len(runs) == (5 if row in ("densirank", "densirank-blind") else 3)
        assert found == _shown(*(mean(run.metrics[key] for run in runs) for key in (RECALL, NDCG)))


@pytest.mark.parametrize("row", TIMED)
def test_a_row_of_two_cores_is_a_record_with_its_seconds(row: str) -> None:
    *_, seconds = cells = _rows()[row]
    said = [float(number) for number in re.findall(r"\d+", seconds.partition(" to ")[0])]
    for place, name in enumerate(SETS):
        (one,) = (r for r in _record(f"time-{name}-cpu")["ours"] if r["method"] == TIMED[row])
        assert cells[2 + place] == _shown(one["recall@20"], one["ndcg@20"])
        assert said[min(place, len(said) - 1)] == round(one["seconds"])


def test_als_is_the_record_of_the_same_run() -> None:
    cells = _rows()["ALS (implicit), 512 factors"]
    seconds = [int(number) for number in re.findall(r"\d+", cells[-1])]
    for place, name in enumerate(SETS):
        one = _record(f"time-{name}-cpu")["peers"]["als-512"]
        assert cells[2 + place] == _shown(one["recall@20"], one["ndcg@20"])
        assert seconds[place] == round(one["seconds"])


@pytest.mark.parametrize("title", ["LightGCN", "DREGN-CF", "PDE-LGCN", "WD-LGCN"])
def test_published_rows_are_what_the_paper_prints(title: str) -> None:
    """As our own tables print them beside the runs."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    table = page[page.index("## Table 1") :]
    printed = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith(f"| {title} |")
    ]
    for place in range(len(SETS)):
        recall, ndcg = printed[place][2], printed[place][5]
        assert _rows()[f"{title}, published"][2 + place] == f"{recall} / {ndcg}"


def test_the_blind_filter_is_its_record() -> None:
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    shown = [_shown(*_record("blind-filter")["found"][name].values()) for name in SETS]
    assert f"the item filter alone has {shown[0]} and {shown[1]}." in text
