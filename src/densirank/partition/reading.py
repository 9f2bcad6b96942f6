"""A partition on disk, of which each process reads the parts that are its own.

``partition.json`` names the other files and their SHA-256 and is written last. Parts are runs of
consecutive users, with indices that all parts share. A process reads the parts its users are in, so
any number of processes can share a partition; as many as it has parts share no file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from densirank.data.interactions import Interactions
from densirank.errors import InputError, StorageError
from densirank.partition.pairs import Pairs
from densirank.storage import checked_file, read_ids, read_json

FORMAT = "densirank-partition"
FORMAT_VERSION = 1
MANIFEST = "partition.json"


def is_partition(folder: Path) -> bool:
    """Whether a path is the folder of a partition."""
    return (folder / MANIFEST).is_file()


@dataclass(frozen=True)
class Part:
    """A run of consecutive users, and the file of their pairs."""

    first_user: int
    users: int
    pairs: int
    file: dict[str, Any]


@dataclass(frozen=True)
class Partition:
    """A log cut by user. ``fingerprint`` changes with anything in it: ranks compare it."""

    folder: Path
    fingerprint: str
    n_users: int
    n_items: int
    n_pairs: int
    ordered: bool
    parts: tuple[Part, ...]
    files: dict[str, dict[str, Any]]  # users, items: their ids

    @classmethod
    def open(cls, folder: Path) -> Partition:
        """Read what a partition says of itself; its parts are read when they are wanted."""
        path = folder / MANIFEST
        if not folder.is_dir():
            raise StorageError(f"there is no folder {folder}")
        if not path.is_file():
            raise StorageError(f"{folder} holds no partition (no {MANIFEST})")
        manifest = read_json(path, FORMAT, FORMAT_VERSION)
        try:
            return cls(
                folder,
                hashlib.sha256(path.read_bytes()).hexdigest(),
                int(manifest["users"]),
                int(manifest["items"]),
                int(manifest["pairs"]),
                bool(manifest["ordered"]),
                tuple(Part(**entry) for entry in manifest["parts"]),
                dict(manifest["files"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{path} does not describe a partition ({error})") from error

    def whole(self) -> Interactions:
        """All of it: what :func:`densirank.read` makes of the log."""
        return self.only(range(self.n_users))

    def among_all(self, users: range) -> Interactions:
        """The pairs of some users (indices) among all users and items, as if others had none."""
        return self._interactions(self._pairs(users).among(users.start, self.n_users), 0)

    def only(self, users: range) -> Interactions:
        """The same of these users alone: what a process holds where users are very many.

        Its user 0 is the first of them; the items are all items.
        """
        return self._interactions(self._pairs(users), users.start)

    def _pairs(self, users: range) -> Pairs:
        if not 0 <= users.start <= users.stop <= self.n_users or users.step != 1:
            raise InputError(f"{users} are no users of a partition of {self.n_users:,}")
        runs = []
        for part in self.parts:
            first, end = part.first_user, part.first_user + part.users
            low, high = max(users.start, first), min(users.stop, end)
            if low < high:
                runs.append(self._load(part).of_users(low - first, high - first))
        if not runs:  # of any part: they all have the same columns
            runs.append(self._load(self.parts[-1]).of_users(0, 0))
        return runs[0] if len(runs) == 1 else Pairs.joined(runs)

    def _load(self, part: Part) -> Pairs:
        pairs = Pairs.load(checked_file(self.folder, part.file, "partition"))
        if (pairs.n_users, len(pairs)) != (part.users, part.pairs):
            raise StorageError(
                f"{self.folder}: {part.file['name']} is not the part {MANIFEST} says"
            )
        return pairs

    def _interactions(self, pairs: Pairs, first: int) -> Interactions:
        users, items = (
            checked_file(self.folder, self.files[role], "partition") for role in ("users", "items")
        )
        return Interactions(
            pairs.indptr,
            pairs.items,
            read_ids(users, first, pairs.n_users),
            read_ids(items),
            pairs.timestamps,
            pairs.weights,
            self.ordered,
        )
