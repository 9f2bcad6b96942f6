"""Titles of items, for people: an optional table beside the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError

if TYPE_CHECKING:
    import polars as pl

ITEM, TITLE = "item_id", "title"


class Titles:
    """The title of each item of a catalogue, None where there is none."""

    def __init__(self, of_item: list[str | None]) -> None:
        import polars as pl

        self.of_item = of_item
        self._searched = pl.Series(of_item, dtype=pl.String).str.to_lowercase()
        self.some = self._searched.null_count() < len(of_item)

    def __getitem__(self, item: int) -> str | None:
        return self.of_item[item]

    def with_words(self, query: str) -> list[int]:
        """The items whose title holds every word of the query, in any order and case."""
        import polars as pl

        words = query.lower().split()
        if not (self.some and words):
            return []
        found = pl.Series([True]).new_from_index(0, len(self.of_item))
        for word in words:
            found &= self._searched.str.contains(word, literal=True)
        return found.fill_null(False).arg_true().to_list()


def read_titles(path: Path | None, items: Vocabulary) -> Titles:
    """The titles a file has for these items; what it says of other items is passed over."""
    of_item: list[str | None] = [None] * len(items)
    if path is not None:
        table = _table(path)
        ids = table[ITEM].to_list()
        for index, title in zip(items.indices(ids), table[TITLE].to_list(), strict=True):
            if index >= 0:
                of_item[index] = title
    return Titles(of_item)


def _table(path: Path) -> pl.DataFrame:
    """The two columns of a titles file, checked."""
    import polars as pl

    readers: dict[str, Callable[[BinaryIO], pl.DataFrame]] = {
        ".csv": partial(pl.read_csv, schema_overrides={ITEM: pl.String, TITLE: pl.String}),
        ".parquet": pl.read_parquet,
        ".jsonl": pl.read_ndjson,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: titles are read from {', '.join(readers)} files")
    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        with path.open("rb") as file:  # by its name, polars would take [ and * for patterns
            table = readers[path.suffix.lower()](file)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as titles: {error}") from error
    if missing := {ITEM, TITLE} - set(table.columns):
        raise InputError(f"{path} has no column {' and no column '.join(sorted(missing))}")
    if not (table[ITEM].dtype == pl.String or table[ITEM].dtype.is_integer()):
        raise InputError(f"{path}: {ITEM} must hold integers or strings")
    if table[TITLE].dtype != pl.String:
        raise InputError(f"{path}: {TITLE} must hold strings, not {table[TITLE].dtype}")
    if table[ITEM].null_count():
        raise InputError(f"{path}: {ITEM} is missing in some rows")
    if table[ITEM].is_duplicated().any():
        twice = table[ITEM].filter(table[ITEM].is_duplicated())[0]
        raise InputError(f"{path} has more than one title for the item {twice}")
    return table
