"""Tables from planted records: means, spreads, differences, and what is not there."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from paper.records import Records, RunRecord
from paper.rows import REFERENCE, TABLE_1, TABLE_2
from paper.tables import lines_of, sheet_of

MakeRun = Callable[..., RunRecord]
MARKS = {
    "train_fingerprint": "18dc3118657156ded95ad39fc614b0a75316ff685fdd3f59db297f113a16cc1a",
    "test_fingerprint": "671b767f5c12593dcafc5e4be730483713cc34c412ff1dfd8202253d890116df",
}


@pytest.fixture
def records(tmp_path: Path, make_run: MakeRun) -> Records:
    """Three seeds of WD-LGCN and one of PDE-LGCN on Gowalla."""
    records = Records(tmp_path)
    for seed, (recall, ndcg) in enumerate([(0.18, 0.15), (0.19, 0.16), (0.20, 0.17)]):
        run = make_run(
            "wd-lgcn", seed, recall, ndcg, dataset="gowalla", seconds=seed + 1.0, **MARKS
        )
        records.keep(run)
    records.keep(make_run("pde-lgcn", 0, 0.1875, 0.1579, dataset="gowalla", **MARKS))
    return records


def cells(records: Records, method: str, dataset: str = "gowalla") -> tuple[str, ...]:
    (line,) = lines_of(TABLE_1, records, dataset, [method])
    return line.cells()


def test_ours_stand_beside_the_published_with_spread_and_difference(records: Records) -> None:
    assert cells(records, "wd-lgcn") == (
        "WD-LGCN",
        *(".1900 ± .0100", ".1859", "+.0041"),
        *(".1600 ± .0100", ".1567", "+.0033"),
        *("3 of 3", "2.0 s"),
    )


def test_one_seed_has_no_spread(records: Records) -> None:
    assert cells(records, "pde-lgcn") == (
        "PDE-LGCN",
        *(".1875", ".1871", "+.0004"),
        *(".1579", ".1575", "+.0004"),
        *("1 of 3", "1.5 s"),
    )


def test_what_is_missing_is_said(records: Records) -> None:
    not_run = ("NGCF", "not run", ".1567", "", "not run", ".1325", "", "0 of 1", "")
    assert cells(records, "ngcf") == not_run
    assert cells(records, "wd-lgcn", "amazon-book")[1:3] == ("not run", ".0580")
    assert cells(records, "wd-lgcn", "amazon-book-24k")[1:3] == ("not run", "–")


def test_the_subset_is_never_called_amazon_book(records: Records) -> None:
    title = sheet_of(TABLE_1, "amazon-book-24k", []).title
    assert "24,172 of Amazon-Book's users; not comparable with Amazon-Book" in title


def test_the_tables_have_the_papers_rows_in_its_order() -> None:
    assert [row.label for row in TABLE_1.rows] == [
        *("NGCF", "Mult-VAE", "ENMF", "LightGCN", "DREGN-CF", "PDE-LGCN", "WD-LGCN")
    ]
    assert len(TABLE_2.rows) == 8
    for row in (*TABLE_1.rows, *TABLE_2.rows):
        assert set(row.published) == {"gowalla", "yelp2018", "amazon-book"}
    assert [row.method for row in REFERENCE.rows if row.published] == ["ease"]


def test_rows_of_the_ablation_have_their_letters(records: Records) -> None:
    lines = lines_of(TABLE_2, records, "gowalla")
    assert [line.label[:4] for line in lines] == [f"({letter}) " for letter in "abcdefgh"]
    assert lines[-1].cells()[1] == ".1900 ± .0100"
    (only,) = lines_of(TABLE_2, records, "gowalla", ["pde-lgcn"])
    assert only.label == "(g) PDE-LGCN"


def test_all_forms_say_the_same(records: Records) -> None:
    lines = lines_of(TABLE_1, records, "gowalla")
    sheet = sheet_of(TABLE_1, "gowalla", lines)
    terminal = io.StringIO()
    Console(file=terminal, width=132).print(sheet.rich())
    drawn, markdown = terminal.getvalue(), sheet.markdown()
    for line in lines:
        assert f"| {' | '.join(line.cells())} |" in markdown
        (row,) = (text for text in drawn.splitlines() if text.split()[:1] == [line.label])
        assert row.split() == " ".join(line.cells()).split()
    data = {line["method"]: line for line in (one.to_json() for one in lines)}
    assert data["wd-lgcn"]["ndcg@20"] == pytest.approx({"mean": 0.16, "sd": 0.01})
    assert data["wd-lgcn"]["published"] == {"recall@20": 0.1859, "ndcg@20": 0.1567}
    assert data["pde-lgcn"]["recall@20"] == {"mean": 0.1875, "sd": None}
    assert data["ngcf"]["recall@20"] is None
