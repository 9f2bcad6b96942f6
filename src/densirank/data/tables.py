"""Tables of interactions, one pair a row: CSV, TSV, Parquet, JSON lines, RecBole and data frames.

Every source becomes a :class:`_Table`, of which only the columns that play a role are ever loaded.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from densirank.data.columns import NO_NAMES, Columns
from densirank.data.interactions import Interactions
from densirank.data.parsing import (
    POLARS_TROUBLE,
    id_column,
    numbers,
    refuse_missing,
    sound_parquet,
    times,
    vocabulary_of,
)
from densirank.data.vocabulary import Vocabulary, encode
from densirank.errors import InputError
from densirank.files import check_file, read_bytes

SEPARATORS = {"csv": ",", "tsv": "\t", "inter": "\t"}


@dataclass(frozen=True)
class _Table:
    """Names of columns and a way to load some of them; ``origin`` is what messages call it."""

    origin: str
    names: list[str]
    load: Callable[[list[str]], pl.DataFrame]
    untyped: bool = False  # all text, as in CSV: which ids are integers must be seen from them
    defaults: Columns = NO_NAMES  # the columns that need no name, where there is no header


def read_table(path: Path, kind: str, columns: Columns, *, header: bool = True) -> Interactions:
    """Interactions from a file of the given kind: a key of ``SEPARATORS``, parquet or jsonl."""
    if kind in SEPARATORS:
        return _interactions(_separated(path, kind, header), columns)
    if kind == "parquet":
        return _interactions(_parquet(path), columns)
    return _interactions(_json_lines(path), columns)


def read_frame(frame: Any, columns: Columns) -> Interactions:
    """Interactions from a polars DataFrame or LazyFrame, a pandas DataFrame or a pyarrow Table."""
    if isinstance(frame, pl.DataFrame | pl.LazyFrame):
        lazy = frame.lazy()
        names = lazy.collect_schema().names()
        table = _Table("the frame", names, lambda wanted: lazy.select(wanted).collect())
    elif hasattr(frame, "iloc"):
        table = _pandas(frame)
    else:
        table = _Table(
            "the table", frame.column_names, lambda wanted: pl.DataFrame(frame.select(wanted))
        )
    return _interactions(table, columns)


def _separated(path: Path, kind: str, header: bool) -> _Table:
    """CSV and its kin, every column as text; without a header the columns are "1", "2", …"""
    data = read_bytes(path)
    _decoded(path, io.BytesIO(data).readline())  # polars would take any bytes for a header

    def parse(columns: list[str] | None = None, n_rows: int | None = None) -> pl.DataFrame:
        try:
            return pl.read_csv(
                data,
                columns=columns,
                n_rows=n_rows,
                has_header=header,
                separator=SEPARATORS[kind],
                infer_schema_length=0,
            )
        except pl.exceptions.NoDataError as error:
            raise InputError(f"{path} is empty") from error
        except POLARS_TROUBLE as error:
            raise _separated_refusal(path, kind, data) from error

    inner = parse(n_rows=0).columns
    names = inner if header else [str(place) for place in range(1, len(inner) + 1)]
    inner_name = dict(zip(names, inner, strict=True))

    def load(wanted: list[str]) -> pl.DataFrame:
        columns = [inner_name[name] for name in wanted]
        frame = parse(columns)
        if frame.select(pl.all_horizontal(pl.all().is_null()).any()).item():
            # A blank line, most likely: only the whole row can tell it from missing values.
            whole = parse()
            frame = whole.filter(pl.any_horizontal(pl.all().is_not_null())).select(columns)
        return frame.select(pl.col(inner_name[name]).alias(name) for name in wanted)

    defaults = NO_NAMES if header else Columns(user="1", item="2")
    return _Table(str(path), names, load, untyped=True, defaults=defaults)


def _parquet(path: Path) -> _Table:
    check_file(path)
    lazy = pl.scan_parquet(path, glob=False)

    names = sound_parquet(path, lambda: lazy.collect_schema().names())
    return _Table(
        str(path), names, lambda wanted: sound_parquet(path, lambda: lazy.select(wanted).collect())
    )


def _json_lines(path: Path) -> _Table:
    data = read_bytes(path)
    if not data.strip():
        raise InputError(f"{path} is empty")
    try:
        frame = pl.read_ndjson(io.BytesIO(data), infer_schema_length=None)
    except POLARS_TROUBLE as error:
        raise _json_refusal(path, data) from error
    return _Table(str(path), frame.columns, frame.select)


def _pandas(frame: Any) -> _Table:
    names = [str(name) for name in frame.columns]

    def load(wanted: list[str]) -> pl.DataFrame:
        part = frame.iloc[:, [names.index(name) for name in wanted]]
        try:
            return pl.DataFrame(pl.from_pandas(part.set_axis(wanted, axis=1)))
        except ImportError as error:
            raise InputError("reading a pandas frame needs the package pyarrow") from error
        except (*POLARS_TROUBLE, ValueError, TypeError) as error:
            raise InputError(
                f"the frame: one of the columns {', '.join(map(repr, wanted))} holds a mixture of "
                "types; cast it first"
            ) from error

    return _Table("the frame", names, load)


def _interactions(table: _Table, wishes: Columns) -> Interactions:
    """The one way from any table to interactions."""
    if not table.names:
        raise InputError(f"{table.origin} has no columns")
    found = wishes.over(table.defaults).find(table.names, table.origin)
    roles = {role: str(getattr(found, role)) for role in found.named()}
    frame = table.load(list(roles.values()))
    for name in roles.values():
        refuse_missing(frame[name], table.origin)
    column = {role: frame[name] for role, name in roles.items()}
    del frame
    user_ids, users = _encode(column.pop("user"), table)
    item_ids, items = _encode(column.pop("item"), table)
    when = times(column["timestamp"], table.origin) if "timestamp" in column else None
    weights = numbers(column["weight"], table.origin) if "weight" in column else None
    try:
        return Interactions.from_codes(users, items, user_ids, item_ids, when, weights)
    except InputError as error:
        raise InputError(f"{table.origin}: {error}") from error


def _encode(column: pl.Series, table: _Table) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The vocabulary of an id column, integers or strings, and each row's index in it."""
    if table.untyped:
        as_integers = column.cast(pl.Int64, strict=False)
        # Only what is written as an integer is one: a leading zero (a postcode, say) is text.
        if as_integers.null_count() == 0 and (as_integers.cast(pl.String) == column).all():
            column = as_integers
    column = id_column(column, table.origin)
    if column.dtype == pl.Int64:
        return encode(column.to_numpy())
    ids = column.unique().sort()
    codes = column.cast(pl.Enum(ids)).to_physical().to_numpy().astype(np.int32)
    return vocabulary_of(ids), codes


def _separated_refusal(path: Path, kind: str, data: bytes) -> InputError:
    """Why a separated file was not understood; worked out only once it is known to be bad."""
    text = io.StringIO(_decoded(path, data), newline="")
    rows = csv.reader(text, delimiter=SEPARATORS[kind])
    width = len(next(rows, []))
    for row in rows:
        if len(row) > width:
            return InputError(
                f"{path}, line {rows.line_num}: there are {len(row)} fields, but {width} columns"
            )
    return InputError(f"{path} cannot be read as {kind}: look for a stray or unclosed quote")


def _json_refusal(path: Path, data: bytes) -> InputError:
    for number, line in enumerate(_decoded(path, data).split("\n"), start=1):
        try:
            fine = not line.strip() or isinstance(json.loads(line), dict)
        except json.JSONDecodeError:
            fine = False
        if not fine:
            return InputError(f"{path}, line {number}: this is no JSON object")
    return InputError(f"{path}: the lines do not agree on the types of their fields")


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: this is no UTF-8 text") from error
