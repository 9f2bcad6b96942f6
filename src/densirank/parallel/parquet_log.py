"""A log on disk: one Parquet file or a folder of them, read in blocks of rows.

Polars' streaming engine finds the ids; it holds the distinct ids but not the rows. The rows are
read in slices in file order, because the order decides which of two equal pairs is the later one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from densirank.data.columns import Columns, Meaning
from densirank.data.interactions import checked_column, refuse_negative
from densirank.data.parsing import (
    id_column,
    numbers,
    refuse_missing,
    sound_parquet,
    times,
    vocabulary_of,
)
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.files import check_file

BLOCK_ROWS = 1 << 22
"""Rows read at a time."""

SUFFIXES = (".parquet", ".pq")
Encoder = Callable[[pl.Series], NDArray[np.int32]]


@dataclass(frozen=True)
class Ids:
    """The distinct ids of a column of a log, and the number of rows of each."""

    origin: Path
    ids: pl.Series
    counts: NDArray[np.int64]

    @property
    def vocabulary(self) -> Vocabulary:
        return vocabulary_of(self.ids)

    def encoder(self) -> Encoder:
        """A function that maps a column of these ids to indices."""
        return self._text_encoder() if self.ids.dtype == pl.String else self._number_encoder()

    def _text_encoder(self) -> Encoder:
        kind = pl.Enum(self.ids)

        def encode(column: pl.Series) -> NDArray[np.int32]:
            codes = column.cast(kind, strict=False).to_physical()
            if codes.null_count():
                raise self._changed()
            return codes.to_numpy().astype(np.int32)

        return encode

    def _number_encoder(self) -> Encoder:
        known = self.ids.to_numpy()

        def encode(column: pl.Series) -> NDArray[np.int32]:
            values = column.to_numpy()
            codes = np.searchsorted(known, values).clip(max=len(known) - 1)
            if (known[codes] != values).any():
                raise self._changed()
            return codes.astype(np.int32)

        return encode

    def _changed(self) -> InputError:
        return InputError(f"{self.origin} has changed while it was read: run the command again")


@dataclass(frozen=True)
class Block:
    """Consecutive rows of a file, beginning at row ``start``."""

    path: Path
    start: int
    frame: pl.DataFrame

    @property
    def origin(self) -> str:
        """The location of the block, for messages that count its rows."""
        return f"{self.path}, after data row {self.start}" if self.start else str(self.path)


@dataclass(frozen=True)
class Log:
    """Files with the same columns, and the columns to read by role."""

    origin: Path
    files: tuple[Path, ...]
    columns: dict[str, str]  # role → name
    schema: pl.Schema

    @classmethod
    def open(cls, origin: Path, wishes: Columns) -> Log:
        """Find the files and their columns; raise if the columns do not agree."""
        files = tuple(_files(origin))
        schemas = [sound_parquet(path, _scan(path).collect_schema) for path in files]
        found = Meaning(wishes).find(schemas[0].names(), str(files[0]))
        columns = {role: str(getattr(found, role)) for role in found.named()}
        for path, schema in zip(files, schemas, strict=True):
            for name in columns.values():
                here, first = schema.get(name), schemas[0][name]
                if here is None:
                    raise InputError(f"{path} has no column {name!r}, but {files[0]} has")
                if here != first:
                    raise InputError(
                        f"the column {name!r} holds {here} values in {path} and {first} values in "
                        f"{files[0]}: cast one of them first"
                    )
        return cls(origin, files, columns, schemas[0])

    @property
    def unused(self) -> tuple[str, ...]:
        """The columns of the first file that play no role."""
        return tuple(name for name in self.schema.names() if name not in self.columns.values())

    @cached_property
    def kind(self) -> np.dtype[Any]:
        """The type of the records of :meth:`records`."""
        others = self._numbers(Block(self.files[0], 0, self.schema.to_frame()))
        kinds = [(role, values.dtype) for role, values in others.items()]
        return np.dtype([("user", np.int32), ("item", np.int32), *kinds])

    def ids(self, role: str) -> Ids:
        """The distinct ids of the user or item column, in ascending order."""
        name = self.columns[role]
        kept_as_text = pl.selectors.by_dtype(pl.Categorical, pl.Enum).cast(pl.String)
        scans = [_scan(path).select(pl.col(name)).with_columns(kept_as_text) for path in self.files]
        found = sound_parquet(
            self.origin,
            lambda: pl.concat(scans).group_by(name).len().sort(name).collect(engine="streaming"),
        )
        if found.height == 0:
            raise InputError(f"{self.origin}: there are no interactions")
        if found[name].null_count() or (found[name].cast(pl.String) == "").any():
            for _ in self.blocks():
                pass  # raises for the first row with a missing value
        ids = id_column(found[name], str(self.origin))
        return Ids(self.origin, ids, found["len"].to_numpy().astype(np.int64))

    def blocks(self) -> Iterator[Block]:
        """All rows in file order, one file after another."""
        for path in self.files:
            scan = _scan(path).select(self.columns.values())
            rows = sound_parquet(path, scan.select(pl.len()).collect).item()
            for start in range(0, rows, BLOCK_ROWS):
                frame = sound_parquet(path, scan.slice(start, BLOCK_ROWS).collect)
                block = Block(path, start, frame)
                for name in self.columns.values():
                    refuse_missing(frame[name], block.origin)
                yield block

    def records(self, users: Encoder, items: Encoder) -> Iterator[NDArray[Any]]:
        """The rows as arrays of ``user``, ``item`` and, if present, ``timestamp``, ``weight``.

        Users and items are indices; times and weights are validated.
        """
        for block in self.blocks():
            column = {role: block.frame[name] for role, name in self.columns.items()}
            fields = {
                "user": users(id_column(column["user"], block.origin)),
                "item": items(id_column(column["item"], block.origin)),
            } | self._numbers(block)
            records = np.empty(block.frame.height, dtype=self.kind)
            for role, values in fields.items():
                records[role] = values
            yield records

    def _numbers(self, block: Block) -> dict[str, NDArray[Any]]:
        """The times and weights of a block, if the log has them."""
        found: dict[str, NDArray[Any]] = {}
        if "timestamp" in self.columns:
            column = block.frame[self.columns["timestamp"]]
            if column.dtype == pl.String:
                raise InputError(
                    f"{block.origin}: the column {column.name!r} holds text; cast it to numbers or "
                    "dates first"
                )
            found["timestamp"] = times(column, block.origin)
        if "weight" in self.columns:
            found["weight"] = numbers(block.frame[self.columns["weight"]], block.origin)
        try:
            for role, values in found.items():
                checked_column(values, f"{role}s", block.frame.height)
            refuse_negative(found.get("weight", np.zeros(0)))
        except InputError as error:
            raise InputError(f"{block.origin}: {error}") from error
        return found


def _files(origin: Path) -> Iterator[Path]:
    """The file itself, or all Parquet files below a folder, sorted by name."""
    if not origin.is_dir():
        check_file(origin)
        yield origin
        return
    found = sorted(path for path in origin.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not found:
        raise InputError(f"there is no Parquet file in {origin}")
    for path in found:
        check_file(path)
        yield path


def _scan(path: Path) -> pl.LazyFrame:
    return pl.scan_parquet(path, glob=False)
