"""The titles of items, as the service and the command line show them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.files import open_file

if TYPE_CHECKING:
    import polars as pl

ITEM, TITLE = "item_id", "title"


class Titles:
    """The title of each item of a catalogue, None for an item without a title."""

    def __init__(self, of_item: list[str | None]) -> None:
        import polars as pl

        self.of_item = of_item
        self._lower_case = pl.Series(of_item, dtype=pl.String).str.to_lowercase()

    @classmethod
    def read(cls, path: Path | None, items: Vocabulary) -> Titles:
        """Read the titles of these items from a file; other items in the file are ignored."""
        of_item: list[str | None] = [None] * len(items)
        if path is not None:
            table = _title_table(path)
            indices = items.indices(table[ITEM].to_list())
            for index, title in zip(indices, table[TITLE].to_list(), strict=True):
                if index >= 0:
                    of_item[index] = title
        return cls(of_item)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the titles."""
        return hashlib.sha256(json.dumps(self.of_item).encode()).hexdigest()

    def beside(self, frame: pl.DataFrame, items: Vocabulary) -> pl.DataFrame:
        """A frame with the column ``title`` after ``item_id``."""
        import polars as pl

        indices = items.indices(frame[ITEM])
        titles = [self.of_item[index] for index in indices]
        place = frame.get_column_index(ITEM) + 1
        return frame.insert_column(place, pl.Series(TITLE, titles, dtype=pl.String))

    def with_words(self, query: str) -> list[int]:
        """The items whose title contains every word of the query, in any order and case."""
        import polars as pl

        words = query.lower().split()
        if not words:
            return []
        found = pl.Series([True]).new_from_index(0, len(self.of_item))
        for word in words:
            found &= self._lower_case.str.contains(word, literal=True)
        return found.fill_null(False).arg_true().to_list()


def _title_table(path: Path) -> pl.DataFrame:
    """The two columns of a titles file, checked."""
    import polars as pl

    text = {ITEM: pl.String, TITLE: pl.String}
    readers: dict[str, Callable[[BinaryIO], pl.DataFrame]] = {
        ".csv": partial(pl.read_csv, schema_overrides=text),
        ".parquet": pl.read_parquet,
        ".jsonl": pl.read_ndjson,
    }
    if path.suffix.lower() not in readers:
        raise InputError(f"{path}: titles can be read from {', '.join(readers)} files")
    try:
        with open_file(path) as file:  # given a path, polars would expand [ and * in its name
            table = readers[path.suffix.lower()](file)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as titles: {error}") from error
    if missing := {ITEM, TITLE} - set(table.columns):
        raise InputError(f"{path} has no column {' and no column '.join(sorted(missing))}")
    ids = table[ITEM]
    if not (ids.dtype == pl.String or ids.dtype.is_integer()):
        raise InputError(f"{path}: {ITEM} must hold integers or strings, not {ids.dtype}")
    if table[TITLE].dtype != pl.String:
        raise InputError(f"{path}: {TITLE} must hold strings, not {table[TITLE].dtype}")
    if ids.null_count():
        raise InputError(f"{path}: {ITEM} is missing in some rows")
    if (repeated := ids.filter(ids.is_duplicated())).len():
        raise InputError(f"{path} has more than one title for the item {repeated[0]}")
    return table
