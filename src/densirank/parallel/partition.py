"""A partition: a log on disk, split by user, of which each process reads the parts it needs.

``partition.json`` lists the other files with their SHA-256 and is written last. A part is a range
of consecutive users; indices are the same in all parts. Each process reads the parts that contain
its users, so any number of processes can share a partition; with as many processes as parts, no
part is read twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from densirank.data.interactions import Interactions, Reading
from densirank.errors import InputError, StorageError
from densirank.storage import checked_file, read_ids, read_json
from densirank.world import World

FORMAT = "densirank-partition"
FORMAT_VERSION = 1
MANIFEST = "partition.json"


def is_partition(folder: Path) -> bool:
    """Whether a path is the folder of a partition."""
    return (folder / MANIFEST).is_file()


@dataclass(frozen=True)
class Pairs:
    """The pairs of consecutive users in CSR form, without ids: the contents of a part's file.

    The arrays are those of :class:`Interactions`; ``indptr`` covers only these users.
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    timestamps: NDArray[Any] | None = None
    weights: NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.items)

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @classmethod
    def of(cls, data: Interactions) -> Pairs:
        """The pairs of interactions."""
        return cls(data.indptr, data.items, data.timestamps, data.weights)

    @classmethod
    def none(cls, users: int, kind: np.dtype[Any]) -> Pairs:
        """No pairs for ``users`` users, with the columns of records of this ``kind``."""
        roles = kind.names or ()
        return cls(
            np.zeros(users + 1, dtype=np.int64),
            np.empty(0, dtype=np.int32),
            np.empty(0, dtype=kind["timestamp"]) if "timestamp" in roles else None,
            np.empty(0, dtype=np.float32) if "weight" in roles else None,
        )

    @classmethod
    def joined(cls, runs: Sequence[Pairs]) -> Pairs:
        """Concatenate runs of users (at least one)."""
        counts = np.concatenate([np.diff(run.indptr) for run in runs])
        timestamps = [run.timestamps for run in runs if run.timestamps is not None]
        weights = [run.weights for run in runs if run.weights is not None]
        return cls(
            np.concatenate(([0], np.cumsum(counts))),
            np.concatenate([run.items for run in runs]),
            np.concatenate(timestamps) if timestamps else None,
            np.concatenate(weights) if weights else None,
        )

    def of_users(self, first: int, end: int) -> Pairs:
        """The pairs of the users from ``first`` up to ``end``."""
        if (first, end) == (0, self.n_users):
            return self
        low, high = self.indptr[[first, end]].tolist()
        return Pairs(
            self.indptr[first : end + 1] - low,
            self.items[low:high].copy(),
            None if self.timestamps is None else self.timestamps[low:high].copy(),
            None if self.weights is None else self.weights[low:high].copy(),
        )

    def among(self, first: int, users: int) -> Pairs:
        """The same pairs among ``users`` users, with the own users starting at ``first``."""
        after = users - first - self.n_users
        indptr = np.pad(self.indptr, (first, after), constant_values=(0, len(self)))
        return Pairs(indptr, self.items, self.timestamps, self.weights)

    def save(self, path: Path) -> None:
        """Write the pairs to a file for :meth:`load`."""
        from safetensors.numpy import save_file

        save_file({name: array for name, array in vars(self).items() if array is not None}, path)

    @classmethod
    def load(cls, path: Path) -> Pairs:
        """Read pairs from a file."""
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return cls(**load_file(path))
        except (SafetensorError, TypeError) as error:
            raise StorageError(f"{path} does not hold a part of a partition ({error})") from error


@dataclass(frozen=True)
class Part:
    """A range of consecutive users, and the file of their pairs."""

    first_user: int
    users: int
    pairs: int
    file: dict[str, Any]


@dataclass(frozen=True)
class Partition:
    """A log split by user. ``fingerprint`` identifies its contents, so processes can compare it."""

    folder: Path
    fingerprint: str
    n_users: int
    n_items: int
    n_pairs: int
    ordered: bool
    parts: tuple[Part, ...]
    files: dict[str, dict[str, Any]]  # the ids of users and items

    @classmethod
    def open(cls, folder: Path) -> Partition:
        """Read the manifest; parts are read when they are needed."""
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
        """All interactions, as :func:`densirank.read` returns them for the log."""
        return self.only(range(self.n_users))

    def among_all(self, users: range) -> Interactions:
        """The pairs of some users (indices), among all users and items."""
        return self._interactions(self._pairs(users).among(users.start, self.n_users), 0)

    def only(self, users: range) -> Interactions:
        """The pairs of some users, with the users renumbered from 0 and all items.

        This is what each of several processes holds.
        """
        return self._interactions(self._pairs(users), users.start)

    def _pairs(self, users: range) -> Pairs:
        if not 0 <= users.start <= users.stop <= self.n_users or users.step != 1:
            raise InputError(
                f"{users} is not a range of users of a partition with {self.n_users:,} users"
            )
        runs = []
        for part in self.parts:
            first, end = part.first_user, part.first_user + part.users
            low, high = max(users.start, first), min(users.stop, end)
            if low < high:
                runs.append(self._load(part).of_users(low - first, high - first))
        if not runs:  # take any part: all have the same columns
            runs.append(self._load(self.parts[-1]).of_users(0, 0))
        return runs[0] if len(runs) == 1 else Pairs.joined(runs)

    def _load(self, part: Part) -> Pairs:
        pairs = Pairs.load(checked_file(self.folder, part.file, "partition"))
        if (pairs.n_users, len(pairs)) != (part.users, part.pairs):
            raise StorageError(f"{self.folder}: {part.file['name']} does not match {MANIFEST}")
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
            self._reading(pairs),
        )

    def _reading(self, pairs: Pairs) -> Reading:
        """What the parts hold; the names of the columns stayed with the log."""
        order = "timestamps" if pairs.timestamps is not None else "said"
        return Reading(order=order if self.ordered else None)


@dataclass(frozen=True, eq=False)
class Portion(Interactions):
    """The share of one process in a partition: its users, renumbered from 0, and all items."""

    partition: Partition | None = None
    first_user: int = 0
    pairs_before: int = 0
    partial: bool = True

    @classmethod
    def read(cls, partition: Partition, world: World) -> Portion:
        """Read this process's users. This is a collective operation."""
        users = world.own(partition.n_users)
        own = partition.only(users)
        lengths = world.gathered(torch.tensor([len(own)], device=world.device))
        return cls(
            own.indptr,
            own.items,
            own.user_ids,
            own.item_ids,
            own.timestamps,
            own.weights,
            own.ordered,
            own.reading,
            partition,
            users.start,
            int(lengths[: world.rank].sum()),
        )

    @property
    def origin(self) -> Partition:
        """The partition that contains this portion."""
        assert self.partition is not None
        return self.partition

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the partition (the same in all processes) and of a changed order."""
        same = self.ordered == self.origin.ordered
        return self.origin.fingerprint + ("" if same else f" ordered={self.ordered}")

    @property
    def totals(self) -> tuple[int, int, int]:
        return self.origin.n_users, self.origin.n_items, self.origin.n_pairs

    def whole(self) -> Interactions:
        return replace(self.origin.whole(), ordered=self.ordered, reading=self.reading)
