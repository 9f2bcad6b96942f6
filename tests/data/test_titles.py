from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from densirank.data.titles import Titles
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError

TABLE = pl.DataFrame({"item_id": [3, 1, 99], "title": ["Three", None, "Not here"]})


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("items", [Vocabulary([1, 2, 3]), Vocabulary(["1", "2", "3"])])
def test_titles_come_from_any_table_for_any_kind_of_id(
    tmp_path: Path, suffix: str, items: Vocabulary
) -> None:
    path = tmp_path / f"[titles]*{suffix}"  # a name, not a pattern
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": TABLE.write_csv,
        ".parquet": TABLE.write_parquet,
        ".jsonl": TABLE.write_ndjson,
    }
    writers[suffix](path)
    assert Titles.read(path, items).of_item == [None, None, "Three"]


def test_without_a_file_nothing_has_a_title() -> None:
    titles = Titles.read(None, Vocabulary([1, 2]))
    assert titles.of_item == [None, None]
    assert titles.with_words("any") == []


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("t.csv", "item_id,name\n1,One\n", "no column title"),
        ("t.csv", "item_id,title\n1,One\n1,Two\n", "more than one title for the item 1"),
        ("t.csv", "item_id,title\n,One\n", "item_id is missing"),
        ("t.csv", "", "is empty"),
        ("t.jsonl", '{"item_id": 1, "title": 5}', "must hold strings"),
        ("t.jsonl", '{"item_id": 1.5, "title": "x"}', "integers or strings"),
        ("t.jsonl", "{", "cannot be read"),
        ("t.parquet", "nonsense", "cannot be read"),
        ("t.xml", "<x/>", "titles can be read from"),
    ],
)
def test_a_file_that_is_no_table_of_titles_is_refused_in_a_sentence(
    tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match=complaint):
        Titles.read(path, Vocabulary([1, 2]))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no file"):
        Titles.read(tmp_path / "none.csv", Vocabulary([1]))
