"""docs/results.md says what the records say."""

from __future__ import annotations

from pathlib import Path

import pytest

from paper.document import MARKED, renew_file, renewed, titles
from paper.products import MAKERS, Request
from paper.records import Records
from paper.sheets import Sheet

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "results.md"
SETS = ("gowalla", "yelp2018", "amazon-book-24k")


def sheets(product: str, datasets: tuple[str, ...]) -> list[Sheet]:
    return MAKERS[product](Request(Records(ROOT / "results"), datasets)).sheets


@pytest.mark.parametrize(
    ("product", "datasets"),
    [
        *((product, SETS) for product in ("table1", "table2", "reference", "best", "adversarial")),
        ("significance", ("amazon-book-24k",)),
    ],
)
def test_the_tables_of_the_page_are_those_of_the_records(
    product: str, datasets: tuple[str, ...]
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = sheets(product, datasets)
    assert made
    assert {sheet.title for sheet in made} <= set(titles(text))
    assert renewed(text, made) == (text, [])


def test_every_mark_has_a_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    marked = list(MARKED.finditer(text))
    assert len(marked) == len(set(titles(text))) == 22
    assert all(found["table"].count("\n") > 2 for found in marked)


def test_only_the_marked_table_of_that_title_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n\n<!-- made: A -->\n\n| old |\n\n<!-- made: B -->\n\n| b |\n\n| c |\n")
    sheet = Sheet("A", ("who", "x"), (("ann", "1"), ("bob | b", "2")))
    assert renew_file(page, [sheet]) == ["A"]
    assert page.read_text() == (
        "a\n\n<!-- made: A -->\n\n| who | x |\n| --- | ---: |\n| ann | 1 |\n| bob \\| b | 2 |\n"
        "\n<!-- made: B -->\n\n| b |\n\n| c |\n"
    )
    assert renew_file(page, [sheet]) == []


def test_columns_that_say_nothing_are_left_out() -> None:
    rows = (("ann", "–", "1", ""), ("bob", "–", "", ""))
    sheet = Sheet("A", ("who", "published", "x", "y"), rows).narrowed()
    assert (sheet.columns, sheet.rows) == (("who", "x"), (("ann", "1"), ("bob", "")))
