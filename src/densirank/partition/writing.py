"""Cutting a log into parts by user, in memory that does not grow with the log.

Rows are dealt out to buckets of consecutive users, files small enough to be held. Each bucket then
goes through :meth:`Interactions.from_codes`, which keeps the latest of equal pairs and puts a
user's items in order of time: the very code of the in-memory reader, so both agree. A part is some
consecutive buckets.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from fnmatch import fnmatch
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from densirank._version import __version__
from densirank.distributed.group import World
from densirank.errors import InputError
from densirank.files import written_atomically
from densirank.partition.buckets import Buckets, even_cuts
from densirank.partition.log import Ids, Log
from densirank.partition.reading import FORMAT, FORMAT_VERSION, MANIFEST, Part, Partition
from densirank.storage import write_file, write_ids

BUCKET_ROWS = 1 << 23
"""Rows of a bucket: about 60 bytes each are held while it is worked on."""

OWN_FILES = ("users-*.parquet", "items-*.parquet", "part-*.safetensors", ".buckets-*", ".*.tmp")


def write_partition(
    log: Log,
    folder: Path,
    n_parts: int,
    *,
    ordered: bool = False,
    on_rows: Callable[[int, int], None] = lambda done, rows: None,
) -> Partition:
    """Cut a log into so many parts, with as many users each; it is there whole or not at all.

    A partition that the folder held before stays whole until this one is. ``ordered`` says that
    the rows stand in order of time, if no timestamps do; ``on_rows`` hears how many rows of how
    many have been read.
    """
    if n_parts < 1:
        raise InputError(f"there must be at least 1 part, not {n_parts}")
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
            "ordered": ordered or "timestamp" in log.columns,
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
    """Deal the rows out, then write one part after another."""
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
            raise InputError(f"{log.origin} has changed while it was read: run this again")
        for first, end in pairwise(bounds):
            pairs = buckets.take(first, end, log.kind, len(items.counts))
            file = write_file(folder, f"part-{len(parts):05d}", ".safetensors", pairs.save)
            parts.append(Part(first, end - first, len(pairs), file))
    if not any(part.pairs for part in parts):
        raise InputError(f"{log.origin}: there are no interactions: every weight is zero")
    return parts


@contextmanager
def _claimed(folder: Path) -> Iterator[None]:
    """A folder to write to; in the end nothing is in it but what its manifest names."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; a folder for the partition was expected")
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.name != MANIFEST and not _is_own(entry):
            raise InputError(
                f"{folder} holds {entry.name}, which is no partition's; choose another"
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
    """Delete what the manifest does not name: a former partition, or a run that did not end."""
    named = set()
    if (folder / MANIFEST).exists():
        partition = Partition.open(folder)
        files = [*partition.files.values(), *(part.file for part in partition.parts)]
        named = {str(file["name"]) for file in files}
    for entry in folder.iterdir():
        if _is_own(entry) and entry.name not in named:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
