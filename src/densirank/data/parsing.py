"""Tables of interactions, one pair per row: CSV, TSV, Parquet, JSON lines, RecBole, data frames.

Every source becomes a :class:`_Table`, of which only the columns with a role are loaded.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from densirank.data.columns import NO_NAMES, Columns, Meaning
from densirank.data.interactions import Interactions, Reading, checked_column, refuse_negative
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


def read_table(path: Path, kind: str, meaning: Meaning, *, header: bool = True) -> Interactions:
    """Interactions from a file of the given kind: a key of ``SEPARATORS``, parquet or jsonl."""
    if kind in SEPARATORS:
        return _interactions(_separated(path, kind, header), meaning)
    if kind == "parquet":
        return _interactions(_parquet(path), meaning)
    return _interactions(_json_lines(path), meaning)


def read_frame(frame: Any, meaning: Meaning) -> Interactions:
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
    return _interactions(table, meaning)


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


def _interactions(table: _Table, meaning: Meaning) -> Interactions:
    """Interactions from any table."""
    if not table.names:
        raise InputError(f"{table.origin} has no columns")
    found = meaning.find(table.names, table.origin, table.defaults)
    roles = {role: str(getattr(found, role)) for role in found.named()}
    wanted = list(dict.fromkeys(roles.values()))
    frame = table.load(wanted)
    for name in wanted:
        refuse_missing(frame[name], table.origin)
    column = {role: frame[name] for role, name in roles.items()}
    del frame
    values = row_values(column, meaning, table.origin)
    kept = values.pop("kept", None)
    if kept is not None:
        if not kept.any():
            raise InputError(
                f"{table.origin}: no row is left of those that count as {_rule(meaning)}"
            )
        column = {role: column[role].filter(pl.Series(kept)) for role in ("user", "item")}
        values = {role: array[kept] for role, array in values.items()}
    user_ids, users = _encode(column.pop("user"), table)
    item_ids, items = _encode(column.pop("item"), table)
    reading = Reading(roles, tuple(name for name in table.names if name not in wanted))
    try:
        data = Interactions.from_codes(
            users, items, user_ids, item_ids, values.get("timestamp"), values.get("weight")
        )
    except InputError as error:
        raise InputError(f"{table.origin}: {error}") from error
    return replace(data, reading=reading)


def _rule(meaning: Meaning) -> str:
    """Which rows count, in words."""
    rules = []
    if meaning.min_rating is not None:
        rules.append(f"a rating of at least {meaning.min_rating:g}")
    if meaning.event_weights is not None:
        rules.append("an event with a weight above 0")
    return " and ".join(rules)


def row_values(
    column: Mapping[str, pl.Series], meaning: Meaning, origin: str
) -> dict[str, NDArray[Any]]:
    """The checked ``timestamp`` and ``weight`` of each row, of a table's columns by role.

    What has no column is absent; ``kept`` says which rows count, where not all do.
    """
    found: dict[str, NDArray[Any]] = {}
    rows = len(column["user"])
    kept = np.ones(rows, dtype=bool)
    if "timestamp" in column:
        found["timestamp"] = times(column["timestamp"], origin, meaning.timestamp_format)
    if "weight" in column:
        found["weight"] = numbers(column["weight"], origin)
    if "event" in column:
        found["weight"] = _weights_of_events(column["event"], meaning.event_weights or {}, origin)
        kept &= found["weight"] > 0
    try:
        for role, values in found.items():
            checked_column(values, f"{role}s", rows)
        refuse_negative(found.get("weight", np.zeros(0)))
    except InputError as error:
        raise InputError(f"{origin}: {error}") from error
    if "rating" in column:
        ratings = numbers(column["rating"], origin)
        if np.isnan(ratings).any():
            row = int(np.argmax(np.isnan(ratings))) + 1
            raise InputError(
                f"{origin}: the column {column['rating'].name!r} has no value in data row {row}"
            )
        kept &= ratings >= meaning.min_rating
    if not kept.all():
        found["kept"] = kept
    return found


def _weights_of_events(
    column: pl.Series, weights: Mapping[str, float], origin: str
) -> NDArray[np.float64]:
    """The weight of each row by its event."""
    named = {str(event): float(weight) for event, weight in weights.items()}
    events = column.cast(pl.String)
    kinds = events.unique(maintain_order=True).to_list()
    unknown = [kind for kind in kinds if kind not in named]
    if unknown:
        row = int((events == unknown[0]).arg_true()[0]) + 1
        raise InputError(
            f"{origin}: the column {column.name!r} holds {unknown[0]!r} in data row {row}, and "
            f"event_weights (--event-weights) does not name it: give it a weight, or 0 to leave "
            "such rows out"
        )
    found = events.replace_strict(named, return_dtype=pl.Float64)
    return found.to_numpy().astype(np.float64)


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


def times(column: pl.Series, origin: str, format: str | None = None) -> NDArray[Any]:
    """Timestamps: numbers as they are, dates in microseconds.

    Text is parsed by ``format`` (as of strptime) if there is one, otherwise as numbers or as dates
    that can be read in one way alone.
    """
    if format is not None:
        column = _formatted_dates(column, origin, format)
    elif column.dtype == pl.String:
        whole_numbers = column.cast(pl.Int64, strict=False)
        if whole_numbers.null_count() == 0:
            column = whole_numbers
        elif column.head(1).cast(pl.Float64, strict=False).null_count():  # the first value decides
            column = _dates(column, origin)
    if column.dtype in (pl.Date, pl.Datetime):
        column = column.dt.timestamp("us")
    return numbers(column, origin)


def _formatted_dates(column: pl.Series, origin: str, format: str) -> pl.Series:
    if column.dtype != pl.String:
        raise InputError(
            f"{origin}: the column {column.name!r} holds {column.dtype} values, not text: leave "
            "timestamp_format (--timestamp-format) out"
        )
    try:
        parsed = column.str.to_datetime(format, time_unit="us", strict=False)
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"{origin}: timestamp_format {format!r} cannot be used ({error})"
        ) from error
    _refuse_unparsed(column, parsed, f"a date of the form {format!r}", origin)
    return parsed


def _dates(column: pl.Series, origin: str) -> pl.Series:
    _refuse_ambiguous(column, origin)
    try:
        parsed = column.str.to_datetime(time_unit="us", strict=False)
    except pl.exceptions.ComputeError:  # the first value does not look like a date
        parsed = pl.Series([None])
    _refuse_unparsed(
        column,
        parsed,
        "a number or an ISO 8601 date; say the form of the dates with timestamp_format "
        "(--timestamp-format)",
        origin,
    )
    return parsed


_TWO_THEN_YEAR = r"^\s*(\d{1,2})[/.-](\d{1,2})[/.-](\d{2,4})(.*)"


def _refuse_ambiguous(column: pl.Series, origin: str) -> None:
    """Refuse dates such as 03/04/2024, if no value tells the day from the month."""
    first, second = (
        column.str.extract(_TWO_THEN_YEAR, group).cast(pl.Int64, strict=False) for group in (1, 2)
    )
    if first.null_count() or not ((first <= 12) & (second <= 12)).all():
        return
    shown = re.match(_TWO_THEN_YEAR, str(column[0]))
    assert shown is not None
    sign, year = str(column[0])[shown.end(1)], "%Y" if len(shown[3]) == 4 else "%y"
    rest = " …" if shown[4].strip() else ""
    forms = [f"'{sign.join((*two, year))}{rest}'" for two in (("%d", "%m"), ("%m", "%d"))]
    raise InputError(
        f"{origin}: the column {column.name!r} holds {column[0]!r}, which may be day and month or "
        f"month and day: say which with timestamp_format={forms[0]} or {forms[1]} "
        "(--timestamp-format)"
    )


def _refuse_unparsed(column: pl.Series, parsed: pl.Series, wanted: str, origin: str) -> None:
    if parsed.null_count():
        row = int(parsed.is_null().arg_true()[0])
        raise InputError(
            f"{origin}: the column {column.name!r} holds {column[row]!r} in data row {row + 1}, "
            f"which is not {wanted}"
        )
