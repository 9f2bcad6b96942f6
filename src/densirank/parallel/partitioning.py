"""Partitioning of a log by user, in memory that does not grow with the log.

Rows are written to buckets of consecutive users: files small enough to fit in memory. Each bucket
then goes through :meth:`Interactions.from_codes`, which keeps the latest of equal pairs and sorts a
user's items by time. The in-memory reader calls the same code, so both give the same result. A part
consists of consecutive buckets.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank._version import __version__
from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.files import written_atomically
from densirank.parallel.parquet_log import Ids, Log
from densirank.parallel.partition import FORMAT, FORMAT_VERSION, MANIFEST, Pairs, Part, Partition
from densirank.storage import write_file, write_ids
from densirank.world import World

BUCKET_ROWS = 1 << 23
"""Rows of a bucket: about 60 bytes per row are in memory while a bucket is processed."""

Ints = NDArray[np.int64]

OWN_FILES = ("users-*.parquet", "items-*.parquet", "part-*.safetensors", ".buckets-*", ".*.tmp")


def write_partition(
    log: Log,
    folder: Path,
    n_parts: int,
    *,
    ordered: bool | None = None,
    on_rows: Callable[[int, int], None] = lambda done, rows: None,
) -> Partition:
    """Split a log into ``n_parts`` parts with the same number of users.

    An existing partition in the folder stays intact until the new one is complete. ``ordered``
    states whether the rows are in order of time; by default they are if there are timestamps.
    ``on_rows`` is called with (rows read, all rows).
    """
    if n_parts < 1:
        raise InputError(f"the number of parts must be at least 1, not {n_parts}")
    with _claimed(folder):
        users, items = log.ids("user"), log.ids("item")
        parts = _write_parts(log, folder, n_parts, users, items, on_rows)
        ids = {"users": users.vocabulary, "items": items.vocabulary}
        manifest = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "densirank": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "users": len(ids["users"]),
            "items": len(ids["items"]),
            "rows": int(users.counts.sum()),
            "pairs": sum(part.pairs for part in parts),
            "ordered": "timestamp" in log.columns if ordered is None else ordered,
            "files": {
                role: write_file(folder, role, ".parquet", partial(write_ids, vocabulary=known))
                for role, known in ids.items()
            },
            "parts": [asdict(part) for part in parts],
        }
        with written_atomically(folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return Partition.open(folder)


def _write_parts(
    log: Log,
    folder: Path,
    n_parts: int,
    users: Ids,
    items: Ids,
    on_rows: Callable[[int, int], None],
) -> list[Part]:
    """Write all rows to buckets, then write the parts."""
    rows = int(users.counts.sum())
    bounds = World(size=n_parts).bounds(len(users.counts))
    cuts = np.union1d(bounds, even_cuts(users.counts, -(-rows // BUCKET_ROWS)))
    parts: list[Part] = []
    with TemporaryDirectory(prefix=".buckets-", dir=folder) as place:
        buckets = Buckets(Path(place), cuts)
        done = 0
        for records in log.records(users.encoder(), items.encoder()):
            buckets.add(records)
            done += len(records)
            on_rows(done, rows)
        if done != rows:
            raise InputError(f"{log.origin} has changed while it was read: run the command again")
        for first, end in pairwise(bounds):
            pairs = buckets.take(first, end, log.kind, len(items.counts))
            file = write_file(folder, f"part-{len(parts):05d}", ".safetensors", pairs.save)
            parts.append(Part(first, end - first, len(pairs), file))
    if not any(part.pairs for part in parts):
        raise InputError(f"{log.origin}: there are no interactions: every weight is zero")
    return parts


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """Prepare the folder, and at the end delete all files that the manifest does not list."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; choose a folder for the partition")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.name != MANIFEST and not _is_own(entry):
            raise InputError(
                f"{folder} holds {entry.name}, which is not part of a partition; choose another "
                "folder"
            )
    try:
        yield
    finally:
        _sweep(folder)
        if new and not any(folder.iterdir()):
            folder.rmdir()


def _is_own(entry: Path) -> bool:
    return any(fnmatch(entry.name, pattern) for pattern in OWN_FILES)


def _sweep(folder: Path) -> None:
    """Delete files that the manifest does not list, from an old partition or a failed run."""
    named = set()
    if (folder / MANIFEST).exists():
        partition = Partition.open(folder)
        files = [*partition.files.values(), *(part.file for part in partition.parts)]
        named = {str(file["name"]) for file in files}
    for entry in folder.iterdir():
        if _is_own(entry) and entry.name not in named:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


# --- buckets: rows on disk by user ----------------------------------------------------------------


def even_cuts(counts: Ints, n: int) -> Ints:
    """Bounds of n ranges of users with about the same number of rows each; (n + 1,).

    >>> even_cuts(np.array([1, 1, 4, 1, 1]), 2).tolist()
    [0, 2, 5]
    """
    before = np.concatenate(([0], np.cumsum(counts)))
    wanted = before[-1] * np.arange(n + 1) // n
    cuts = np.searchsorted(before, wanted)
    below = np.maximum(cuts - 1, 0)
    nearest: Ints = np.where(wanted - before[below] <= before[cuts] - wanted, below, cuts)
    return nearest


@dataclass(frozen=True)
class Buckets:
    """Files of rows in input order, one for each range of users between two ``cuts``."""

    folder: Path
    cuts: Ints  # (buckets + 1,) ascending

    def add(self, rows: NDArray[Any]) -> None:
        """Append rows to the buckets of their users."""
        bucket = np.searchsorted(self.cuts, rows["user"], side="right") - 1
        order = np.argsort(bucket.astype(np.min_scalar_type(len(self.cuts))), kind="stable")
        rows = rows[order]
        ends = np.searchsorted(bucket[order], np.arange(len(self.cuts)))
        for number, (start, end) in enumerate(pairwise(ends)):
            if end > start:
                with self._path(number).open("ab") as file:
                    rows[start:end].tofile(file)

    def take(self, first: int, end: int, kind: np.dtype[Any], n_items: int) -> Pairs:
        """The unique pairs of the users from ``first`` up to ``end``; both must be cuts.

        The buckets, with records of this ``kind``, are deleted to free disk space.
        """
        low, high = np.searchsorted(self.cuts, (first, end)).tolist()
        runs = [self._take(number, kind, n_items) for number in range(low, high)]
        return Pairs.joined(runs) if runs else Pairs.none(0, kind)

    def _take(self, number: int, kind: np.dtype[Any], n_items: int) -> Pairs:
        first, end = self.cuts[number : number + 2].tolist()
        path = self._path(number)
        if not path.exists():
            return Pairs.none(end - first, kind)
        rows = np.fromfile(path, dtype=kind)
        path.unlink()
        column = {name: rows[name] for name in kind.names or ()}
        weights = column.get("weight")
        if weights is not None and not weights.any():
            return Pairs.none(end - first, kind)
        return Pairs.of(
            Interactions.from_codes(
                column["user"] - np.int32(first),
                column["item"],
                _numbered(end - first),
                _numbered(n_items),
                column.get("timestamp"),
                weights,
            )
        )

    def _path(self, number: int) -> Path:
        return self.folder / str(number)


def _numbered(count: int) -> Vocabulary:
    """Ids equal to the indices, for code that only needs indices."""
    return Vocabulary.from_sorted(np.arange(count))
