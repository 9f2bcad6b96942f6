"""Recommendations for all users, computed in parts and merged into one file.

Each part is a file in a folder next to the target and is either complete or absent, so a run can be
resumed after any interruption: parts of the same model and options are kept, the others are
computed. At the end the parts are merged into one file, which replaces the target atomically. The
parts and the file do not depend on the process that computes them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from densirank import frames
from densirank._version import __version__
from densirank.data.titles import Titles
from densirank.errors import InputError, StorageError
from densirank.files import written_atomically
from densirank.ranker import Ranker, load
from densirank.ranking.lists import RankBy
from densirank.storage import model_fingerprint, read_json
from densirank.world import ONE_PROCESS, World

PART_USERS = 10_000
"""Users of a part: the most that are held in memory, or lost by an interruption."""

FORMAT = "densirank-parts"
FORMAT_VERSION = 1
MANIFEST = "parts.json"
WHOLE = "whole"
ROW_GROUP = 1 << 18


@dataclass(frozen=True)
class Parts:
    """The recommendation lists of all users in parts, and the target file."""

    ranker: Ranker
    model: str  # fingerprint
    target: Path
    k: int = 10
    approximate: bool = False
    part_users: int = PART_USERS
    filter_seen: bool = True
    items: Sequence[int] | Sequence[str] | None = None  # known ones
    exclude: Sequence[int] | Sequence[str] | None = None
    titles: Titles | None = None
    rank_by: RankBy = "score"

    @property
    def folder(self) -> Path:
        """The folder of the parts until all of them are complete."""
        return self.target.with_name(f"{self.target.name}.parts")

    @property
    def n_parts(self) -> int:
        return -(-self.ranker.interactions_.n_users // self.part_users)

    def run(
        self,
        on_part: Callable[[int], None] = lambda done: None,
        world: World = ONE_PROCESS,
    ) -> int:
        """Write the file and return its number of rows.

        Parts of an earlier run with the same model and options are kept. Several processes share
        one folder and each computes its own parts; ``on_part`` is called with the number of parts
        that this process has done. The first process claims the folder and merges the parts.
        """
        if world.first:
            self.claim_folder()
        world.wait()
        self.check_folder(f"process {world.rank}")
        for done, number in enumerate(self.own(world), start=1):
            self.make(number)
            on_part(done)
        world.wait()
        rows = self.finish() if world.first else 0
        return int(world.sum_(torch.tensor(rows, device=world.device)))

    def own(self, world: World) -> range:
        """The parts of this process; none if there are more processes than parts."""
        return range(world.rank, self.n_parts, world.size)

    def make(self, number: int) -> None:
        """Write a part unless it exists."""
        path = self._part(number)
        if not path.exists():
            frame = self.ranker.recommend(
                self._users(number),
                self.k,
                filter_seen=self.filter_seen,
                items=self.items,
                exclude=self.exclude,
                approximate=self.approximate,
                rank_by=self.rank_by,
            )
            if self.titles is not None:
                frame = self.titles.beside(frame, self.ranker.interactions_.item_ids)
            with written_atomically(path) as temporary:
                frame.write_parquet(temporary)

    def finish(self) -> int:
        """Merge the parts into the target file and return its number of rows."""
        rows = self._merge()
        self._clear()
        self.folder.rmdir()
        return rows

    def missing(self) -> list[int]:
        """The parts that do not exist yet."""
        return [number for number in range(self.n_parts) if not self._part(number).exists()]

    def check_folder(self, who: str) -> None:
        """Raise unless the folder was claimed for the same model and options."""
        if self._left_behind() != self._what():
            raise InputError(
                f"{who} does not find in {self.folder} what the first process wrote there: all "
                "processes must see the same file system and the same model"
            )

    def parts_done(self) -> int:
        """The number of complete parts of an earlier run with the same model and options."""
        if self._left_behind() != self._what():
            return 0
        return sum(self._part(number).exists() for number in range(self.n_parts))

    def _users(self, number: int) -> Any:
        start = number * self.part_users
        return self.ranker.interactions_.user_ids.ids[start : start + self.part_users]

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:07d}.parquet"

    def _what(self) -> dict[str, Any]:
        """Everything that determines the contents of a part."""
        index = self.ranker.index_ if self.approximate else None
        return {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "densirank": __version__,
            "torch": torch.__version__,
            "device": self.ranker.scorer_.device.type,
            "model": self.model,
            "k": self.k,
            "index": None if index is None else vars(index.measured),
            "part_users": self.part_users,
            "filter_seen": self.filter_seen,
            "items": None if self.items is None else list(self.items),
            "exclude": None if self.exclude is None else list(self.exclude),
            "rank_by": self.rank_by,
            "titles": None if self.titles is None else self.titles.fingerprint,
        }

    def _left_behind(self) -> dict[str, Any] | None:
        path = self.folder / MANIFEST
        return read_json(path, FORMAT, FORMAT_VERSION) if path.exists() else None

    def claim_folder(self) -> None:
        """Claim the folder for this run; parts of another run are deleted."""
        if self.folder.exists() and self._left_behind() is None and any(self.folder.iterdir()):
            raise InputError(f"{self.folder} holds other files; choose another --out")
        self.folder.mkdir(exist_ok=True)
        if self._left_behind() == self._what():
            return
        self._clear()
        with written_atomically(self.folder / MANIFEST) as temporary:
            temporary.write_text(json.dumps(self._what(), indent=1) + "\n", encoding="utf-8")

    def _clear(self) -> None:
        """Delete the parts, and the manifest last."""
        for pattern in (WHOLE, ".*.tmp", "part-*.parquet", MANIFEST):
            for path in self.folder.glob(pattern):
                path.unlink()

    def _merge(self) -> int:
        """Merge all parts into one file in the format of its suffix, one row group at a time."""
        import polars as pl

        parts = pl.scan_parquet([self._part(number) for number in range(self.n_parts)], glob=False)
        whole, suffix = self.folder / WHOLE, self.target.suffix.lower()
        options = {} if suffix in (".csv", ".jsonl") else {"row_group_size": ROW_GROUP}
        try:
            with written_atomically(whole) as temporary:
                frames.write(parts, temporary, suffix, **options)
            rows: int = parts.select(pl.len()).collect().item()
        except pl.exceptions.ComputeError as error:
            raise StorageError(
                f"a part in {self.folder} is damaged ({error}): delete that folder and start again"
            ) from error
        whole.replace(self.target)
        return rows


@dataclass(frozen=True)
class Order:
    """The description of a run, from which any process can compute parts."""

    model: Path
    target: Path
    k: int
    approximate: bool
    device: str
    part_users: int = PART_USERS
    filter_seen: bool = True
    items: Sequence[int] | Sequence[str] | None = None
    exclude: Sequence[int] | Sequence[str] | None = None
    titles: Path | None = None
    rank_by: RankBy = "score"

    def load(self) -> Parts:
        """The parts, with the model in memory."""
        fingerprint = model_fingerprint(self.model)
        ranker = load(self.model, self.device)
        if model_fingerprint(self.model) != fingerprint:
            raise InputError(
                f"the model in {self.model} was replaced while it was read: run the command again"
            )
        items = ranker.interactions_.item_ids
        titles = None if self.titles is None else Titles.read(self.titles, items)
        return Parts(
            ranker,
            fingerprint,
            self.target,
            self.k,
            self.approximate,
            self.part_users,
            self.filter_seen,
            _known(ranker, self.items, "items"),
            _known(ranker, self.exclude, "exclude"),
            titles,
            self.rank_by,
        )


def _known(
    ranker: Ranker, items: Sequence[int] | Sequence[str] | None, name: str
) -> Sequence[int] | Sequence[str] | None:
    """The items that the model knows; a warning counts the others, once and not in every part."""
    indices = ranker.known_items(items, name)
    if indices is None:
        return None
    ids = ranker.interactions_.item_ids.ids
    known: Sequence[int] | Sequence[str] = ids[indices.cpu().numpy()].tolist()
    return known
