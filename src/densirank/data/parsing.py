"""What a column of a table may hold: ids, times and numbers, or a sentence saying what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError

# What polars raises at a damaged file: its own errors, a panic where it trusted the file, and
# in older versions a bare RuntimeError.
POLARS_TROUBLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, RuntimeError)

T = TypeVar("T")


def sound_parquet(path: Path, query: Callable[[], T]) -> T:
    """What a query of a Parquet file gives, or a sentence saying that the file is damaged."""
    try:
        return query()
    except (*POLARS_TROUBLE, OSError) as error:
        raise InputError(
            f"{path} is not a sound Parquet file: it may be damaged or cut short"
        ) from error


def refuse_missing(column: pl.Series, origin: str) -> None:
    """Refuse a column with a null or an empty text in it, naming the first such row."""
    missing = column.is_null()
    if column.dtype == pl.String:
        missing = missing | (column == "").fill_null(False)
    if missing.any():
        row = int(missing.arg_true()[0]) + 1
        raise InputError(f"{origin}: the column {column.name!r} has no value in data row {row}")


def id_column(column: pl.Series, origin: str) -> pl.Series:
    """A column of ids as 64-bit integers or as strings; anything else is refused."""
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
    """The vocabulary of ids that are unique and in polars' ascending order.

    Polars compares strings as UTF-8 bytes, which is the order of their code points: Python's.
    """
    if ids.dtype == pl.String:
        return Vocabulary.from_sorted(np.array(ids.to_list(), dtype=object))
    return Vocabulary.from_sorted(ids.to_numpy().copy())


def _refuse_beyond_int64(column: pl.Series, origin: str) -> None:
    limits = np.iinfo(np.int64)
    for extreme in (column.min(), column.max()):
        if isinstance(extreme, int) and not limits.min <= extreme <= limits.max:
            raise InputError(
                f"{origin}: the column {column.name!r} holds {extreme}, which is beyond 64-bit "
                "integers; cast it to strings first"
            )


def numbers(column: pl.Series, origin: str) -> NDArray[Any]:
    """A column of numbers, or of text that spells them."""
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
    """Timestamps as they are if they are numbers, in microseconds if they are dates."""
    if column.dtype == pl.String:
        whole_numbers = column.cast(pl.Int64, strict=False)
        if whole_numbers.null_count() == 0:
            column = whole_numbers
        elif column.head(1).cast(pl.Float64, strict=False).null_count():  # the first one decides
            column = _dates(column, origin)
    if column.dtype in (pl.Date, pl.Datetime):
        column = column.dt.timestamp("us")
    return numbers(column, origin)


def _dates(column: pl.Series, origin: str) -> pl.Series:
    try:
        parsed = column.str.to_datetime(time_unit="us", strict=False)
    except pl.exceptions.ComputeError:  # not even the first value looks like a date
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
