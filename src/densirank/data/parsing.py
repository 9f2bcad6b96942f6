"""Tables of interactions, one pair per row: CSV, TSV, Parquet, JSON lines, RecBole, data frames.

Every source becomes a :class:`_Table`, of which only the columns with a role are loaded.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from densirank.data.columns import NO_NAMES, Columns
from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary, encode
from densirank.errors import InputError
from densirank.files import check_file, open_file

SEPARATORS = {"csv": ",", "tsv": "\t", "inter": "\t"}

# polars raises its own errors for damaged files, a panic if it trusted the file, and in older
# versions a bare RuntimeError.
POLARS_TROUBLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, RuntimeError)

T = TypeVar("T")


@dataclass(frozen=True)
class _Table:
    """The columns of a table and a function that loads some; ``origin`` names it in messages."""

    origin: str
    names: list[str]
    load: Callable[[list[str]], pl.DataFrame]
    untyped: bool = (
        False  # all columns are text, as in CSV: the values tell whether ids are integers
    )
    defaults: Columns = NO_NAMES  # of a file without a header


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
    """CSV, TSV or RecBole, all columns as text; without a header they are named "1", "2", …"""
    with open_file(path) as stream:
        data = stream.read()
    _decoded(path, io.BytesIO(data).readline())  # polars accepts any bytes as a header

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
            # Probably a blank line: only the whole row distinguishes it from missing values.
            whole = parse()
            frame = whole.filter(pl.any_horizontal(pl.all().is_not_null())).select(columns)
        return frame.select(pl.col(inner_name[name]).alias(name) for name in wanted)

    defaults = NO_NAMES if header else Columns(user="1", item="2")
    return _Table(str(path), names, load, untyped=True, defaults=defaults)


def _parquet(path: Path) -> _Table:
    check_file(path)
    lazy = pl.scan_parquet(path, glob=False)

    def load(wanted: list[str]) -> pl.DataFrame:
        return sound_parquet(path, lambda: lazy.select(wanted).collect())

    return _Table(str(path), sound_parquet(path, lambda: lazy.collect_schema().names()), load)


def _json_lines(path: Path) -> _Table:
    with open_file(path) as stream:
        data = stream.read()
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
    """Interactions from any table."""
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
        # Ids with leading zeros (postcodes, for example) stay text.
        if as_integers.null_count() == 0 and (as_integers.cast(pl.String) == column).all():
            column = as_integers
    column = id_column(column, table.origin)
    if column.dtype == pl.Int64:
        return encode(column.to_numpy())
    ids = column.unique().sort()
    codes = column.cast(pl.Enum(ids)).to_physical().to_numpy().astype(np.int32)
    return vocabulary_of(ids), codes


def _separated_refusal(path: Path, kind: str, data: bytes) -> InputError:
    """Why a separated file could not be parsed."""
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
            return InputError(f"{path}, line {number} is not a JSON object")
    return InputError(f"{path}: the types of a field differ between lines")


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line} is not UTF-8 text") from error


def sound_parquet(path: Path, query: Callable[[], T]) -> T:
    """The result of a query of a Parquet file; an error if the file is damaged."""
    try:
        return query()
    except (*POLARS_TROUBLE, OSError) as error:
        raise InputError(
            f"{path} is not a valid Parquet file: it may be damaged or cut short"
        ) from error


def refuse_missing(column: pl.Series, origin: str) -> None:
    """Raise an error that names the first row with a null or an empty string."""
    missing = column.is_null()
    if column.dtype == pl.String:
        missing = missing | (column == "").fill_null(False)
    if missing.any():
        row = int(missing.arg_true()[0]) + 1
        raise InputError(f"{origin}: the column {column.name!r} has no value in data row {row}")


def id_column(column: pl.Series, origin: str) -> pl.Series:
    """A column of ids as 64-bit integers or strings; any other type is an error."""
    if column.dtype.is_integer():
        _refuse_beyond_int64(column, origin)
        return column.cast(pl.Int64)
    if column.dtype in (pl.Categorical, pl.Enum):
        return column.cast(pl.String)
    if column.dtype != pl.String:
        raise InputError(
            f"{origin}: the column {column.name!r} holds {column.dtype} values, but ids are "
            "integers or strings; cast it first"
        )
    return column


def vocabulary_of(ids: pl.Series) -> Vocabulary:
    """The vocabulary of unique ids in the ascending order of polars.

    Polars compares strings as UTF-8 bytes. That is the order of code points, like in Python.
    """
    return Vocabulary.from_sorted(ids.to_numpy().copy())


def _refuse_beyond_int64(column: pl.Series, origin: str) -> None:
    limits = np.iinfo(np.int64)
    for extreme in (column.min(), column.max()):
        if isinstance(extreme, int) and not limits.min <= extreme <= limits.max:
            raise InputError(
                f"{origin}: the column {column.name!r} holds {extreme}, which exceeds 64-bit "
                "integers; cast it to strings first"
            )


def numbers(column: pl.Series, origin: str) -> NDArray[Any]:
    """A column of numbers, or of numbers written as text."""
    if column.dtype == pl.String:
        parsed = column.cast(pl.Float64, strict=False)
        _refuse_unparsed(column, parsed, "a number", origin)
        column = parsed
    if not column.dtype.is_numeric():
        raise InputError(
            f"{origin}: the column {column.name!r} holds {column.dtype} values where numbers "
            "were expected"
        )
    return column.cast(pl.Float64).to_numpy() if column.dtype.is_decimal() else column.to_numpy()


def times(column: pl.Series, origin: str) -> NDArray[Any]:
    """Timestamps: numbers as they are, dates in microseconds."""
    if column.dtype == pl.String:
        whole_numbers = column.cast(pl.Int64, strict=False)
        if whole_numbers.null_count() == 0:
            column = whole_numbers
        elif column.head(1).cast(pl.Float64, strict=False).null_count():  # the first value decides
            column = _dates(column, origin)
    if column.dtype in (pl.Date, pl.Datetime):
        column = column.dt.timestamp("us")
    return numbers(column, origin)


def _dates(column: pl.Series, origin: str) -> pl.Series:
    try:
        parsed = column.str.to_datetime(time_unit="us", strict=False)
    except pl.exceptions.ComputeError:  # the first value does not look like a date
        parsed = pl.Series([None])
    _refuse_unparsed(column, parsed, "a number or an ISO 8601 date", origin)
    return parsed


def _refuse_unparsed(column: pl.Series, parsed: pl.Series, wanted: str, origin: str) -> None:
    if parsed.null_count():
        row = int(parsed.is_null().arg_true()[0])
        raise InputError(
            f"{origin}: the column {column.name!r} holds {column[row]!r} in data row {row + 1}, "
            f"which is not {wanted}"
        )
