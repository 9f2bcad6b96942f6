"""Reads interactions from files, frames, matrices and pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from densirank.data.adjacency_text import read_text_form
from densirank.data.columns import Columns, Meaning
from densirank.data.datasets import with_known_order
from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.files import check_file

FORMATS = {
    ".txt": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".inter": "inter",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_COLUMNS = {
    "user_column",
    "item_column",
    "timestamp_column",
    "weight_column",
    "rating_column",
    "event_column",
    "timestamp_format",
    "min_rating",
    "event_weights",
}
_OPTIONS: dict[str, set[str]] = {
    **dict.fromkeys(("csv", "tsv"), {"format", "header"} | _COLUMNS),
    **dict.fromkeys(("inter", "parquet", "jsonl"), {"format"} | _COLUMNS),
    "text": {"format"},
    "frame": _COLUMNS,
    "matrix": {"shape"},
    "pairs": set(),
}
_FRAMES = {
    ("polars", "DataFrame"),
    ("polars", "LazyFrame"),
    ("pandas", "DataFrame"),
    ("pyarrow", "Table"),
}


def read(
    source: Any,
    *,
    user_column: str | None = None,
    item_column: str | None = None,
    timestamp_column: str | None = None,
    timestamp_format: str | None = None,
    weight_column: str | None = None,
    rating_column: str | None = None,
    min_rating: float | None = None,
    event_column: str | None = None,
    event_weights: Mapping[str, float] | None = None,
    ordered: bool | None = None,
    format: str | None = None,
    header: bool = True,
    allow_empty_users: bool = False,
    shape: tuple[int, int] | None = None,
) -> Interactions:
    """Interactions from a file, a frame, a matrix or pairs.

    Parameters
    ----------
    source
        A path, a polars, pandas or pyarrow table, a users × items SciPy matrix, or an iterable of
        (user, item) pairs. The suffix of a path gives the format: ``.txt`` (one line per user:
        ``user item item …``), ``.csv``, ``.tsv``, ``.parquet``, ``.jsonl`` or RecBole's ``.inter``;
        text formats may end in ``.gz``.
    user_column, item_column, timestamp_column, weight_column
        Names of columns without a usual name. An empty string means "none": ``weight_column=""``
        ignores a column of play counts. Weights must not be negative; a row of weight 0 is left
        out, and the weights of repeated pairs add up. A column of ratings is no weight unless it
        is named as one.
    timestamp_format
        The form of the dates in a timestamp column of text, as of strptime: ``"%d/%m/%Y"``. Not
        needed for ISO 8601; required where every date could be day/month or month/day.
    rating_column, min_rating
        Keep only rows with a rating of at least ``min_rating``.
    event_column, event_weights
        Weight each row by its event: ``{"view": 1, "cart": 3, "purchase": 10}``. An event of
        weight 0 is left out; one that is not named is an error.
    ordered
        Whether the items of each user are in order of time. Default: yes with timestamps, by which
        they are sorted, and if they are a public data set in its published order; otherwise no.
    format
        Format of a file, in place of its suffix.
    header
        Whether a CSV or TSV file has a header. Without one, the first column is the user and the
        second the item, and others are named by their number: ``timestamp_column="4"``.
    allow_empty_users
        Whether the text form may have users without items.
    shape
        Expected shape of a matrix, users × items, which detects a transposed one.

    Returns
    -------
    Interactions
        The unique pairs, with their timestamps and weights.

    Raises
    ------
    InputError
        A source that cannot be read, an invalid value, or an option that the source does not take.

    Examples
    --------
    >>> import polars as pl
    >>> stars = pl.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5], "rating": [5, 2, 4]})
    >>> read(stars), read(stars, min_rating=4)
    (Interactions(2 users, 2 items, 3 pairs), Interactions(2 users, 1 items, 2 pairs))
    >>> read([("ann", "tea"), ("bob", "tea"), ("ann", "jam")])
    Interactions(2 users, 2 items, 3 pairs)
    >>> read(sparse.csr_array([[1, 0, 1], [0, 0, 1]]), shape=(2, 3))
    Interactions(2 users, 3 items, 3 pairs)
    """
    columns = Columns(
        user_column, item_column, timestamp_column, weight_column, rating_column, event_column
    )
    meaning = Meaning(columns, timestamp_format, min_rating, event_weights)
    options = {
        "format": format,
        "header": None if header else False,
        "shape": shape,
        "timestamp_format": timestamp_format,
        "min_rating": min_rating,
        "event_weights": event_weights,
    }
    given = {option for option, value in options.items() if value is not None}
    given |= {f"{role}_column" for role in columns.named()}
    kind = _kind_of(source, format)
    if useless := given - _OPTIONS[kind]:
        raise InputError(f"{' and '.join(sorted(useless))} cannot be used with {kind} input")

    if kind == "text":
        data = read_text_form(source, allow_empty_users=allow_empty_users)
    elif kind == "matrix":
        data = _from_matrix(source, shape)
    elif kind == "pairs":
        data = _from_pairs(source)
    else:
        from densirank.data import parsing  # imports polars, which nothing else here needs

        if kind == "frame":
            data = parsing.read_frame(source, meaning)
        else:
            data = parsing.read_table(Path(source), kind, meaning, header=header)
    path = Path(source) if isinstance(source, str | PathLike) else None
    return with_known_order(data, ordered, path)


def _kind_of(source: Any, format: str | None) -> str:
    if isinstance(source, str | PathLike):
        if format is not None and format not in FORMATS.values():
            known = ", ".join(dict.fromkeys(FORMATS.values()))
            raise InputError(f"there is no format {format!r}; the formats are: {known}")
        return format or _format_of(Path(source))
    if _is_frame(source):
        return "frame"
    return "matrix" if sparse.issparse(source) else "pairs"


def _format_of(path: Path) -> str:
    suffix = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    if suffix in FORMATS:
        return FORMATS[suffix]
    check_file(path)
    known = ", ".join(FORMATS)
    raise InputError(
        f"{path}: the suffix {suffix!r} is not one of {known}; name its format (--format)"
    )


def _is_frame(source: object) -> bool:
    """Whether this is a data frame, without importing the frame libraries."""
    kinds = {(kind.__module__.split(".")[0], kind.__name__) for kind in type(source).__mro__}
    return not kinds.isdisjoint(_FRAMES)


def _from_matrix(matrix: Any, shape: tuple[int, int] | None) -> Interactions:
    """Rows are users and columns are items; empty rows and columns are kept."""
    if matrix.ndim != 2:
        raise InputError("a matrix must have two dimensions: users × items")
    n_users, n_items = matrix.shape
    if shape is not None and (n_users, n_items) != shape:
        hint = ": is it transposed?" if (n_items, n_users) == shape else ""
        raise InputError(
            f"the matrix is {n_users} × {n_items}, expected users × items = "
            f"{shape[0]} × {shape[1]}{hint}"
        )
    csr = sparse.csr_array(matrix)
    if csr.dtype.kind not in "biuf":
        raise InputError(f"the matrix holds {csr.dtype} values where numbers were expected")
    users = np.repeat(np.arange(n_users), np.diff(csr.indptr))
    values = csr.data.astype(np.float64)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError(
            f"the matrix holds {values[at]} in row {users[at]}, column {csr.indices[at]}; "
            "values must be finite and not negative"
        )
    data = Interactions.from_codes(
        users,
        csr.indices,
        Vocabulary.from_sorted(np.arange(n_users)),
        Vocabulary.from_sorted(np.arange(n_items)),
        weights=values,
    )
    all_ones = data.weights is not None and bool((data.weights == 1).all())
    return replace(data, weights=None) if all_ones else data


def _from_pairs(source: Any) -> Interactions:
    if isinstance(source, np.ndarray) and source.ndim == 2 and source.shape[1] == 2:
        return Interactions.from_pairs(source[:, 0], source[:, 1])
    if not isinstance(source, Iterable):
        raise InputError(f"cannot read interactions from {type(source).__name__}")
    pairs = list(source)
    for number, pair in enumerate(pairs, start=1):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InputError(f"element {number} is {pair!r}, not a (user, item) pair")
    return Interactions.from_pairs([user for user, _ in pairs], [item for _, item in pairs])


def as_interactions(source: Any) -> Interactions:
    """Interactions, as they are or read from any source of :func:`read`."""
    return source if isinstance(source, Interactions) else read(source)


def as_histories(source: Any) -> Interactions:
    """Interactions of people to fold in: pairs that are given one by one are oldest first.

    >>> as_histories([("zoe", "jam"), ("zoe", "tea")]).ordered
    True
    """
    if isinstance(source, Interactions):
        return source
    return read(source, ordered=True if _kind_of(source, None) == "pairs" else None)
