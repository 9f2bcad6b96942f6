"""The metrics of every test user of a run, as a small Parquet file next to its record."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from densirank.errors import InputError, StorageError
from densirank.files import written_atomically

METRICS = ("recall", "ndcg")

Columns = dict[str, NDArray[np.float32]]


def write_per_user(
    path: Path, users: NDArray[np.int64], per_user: Mapping[str, NDArray[np.float64]]
) -> None:
    """Keep the metrics at 20 of each user, in ascending order of the users' ids."""
    pa, parquet = _pyarrow()
    columns = {"user": users} | {name: per_user[name].astype(np.float32) for name in METRICS}
    with written_atomically(path) as temporary:
        parquet.write_table(
            pa.table(columns),
            temporary,
            compression="zstd",
            use_dictionary=list(METRICS),  # few hits: the same values come again and again
            column_encoding={"user": "DELTA_BINARY_PACKED"},
        )


def read_per_user(path: Path) -> tuple[NDArray[np.int64], Columns]:
    """The users' ids and their metrics."""
    pa, parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
        users = table.column("user").to_numpy()
        return users, {name: table.column(name).to_numpy() for name in METRICS}
    except (pa.ArrowException, KeyError, OSError) as error:
        raise StorageError(f"{path} holds no metrics of users: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _pyarrow() -> tuple[ModuleType, ModuleType]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise InputError(
            "metrics of users are kept with pyarrow, which is not installed: "
            "pip install 'densirank[paper]'"
        ) from error
    return pyarrow, pyarrow.parquet
