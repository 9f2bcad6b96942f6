"""Sharded checkpoints: each process writes its rows, and any number of processes can read them.

``torch.distributed.checkpoint`` records which rows of which table a file holds, so a run of four
processes can be resumed by two. Files are in safetensors format; nothing is pickled. A checkpoint
is written next to the previous one and renamed when all of it is on disk, so an incomplete
checkpoint is never used.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import (
    HuggingFaceStorageReader,
    HuggingFaceStorageWriter,
)
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from densirank.data.share import Share
from densirank.errors import StorageError
from densirank.models.base import Model
from densirank.training.checkpoint import Checkpoint
from densirank.world import in_contact

WRITING = ".writing"
METADATA = "metadata.json"

UNREADABLE = (OSError, ValueError, KeyError, SafetensorError, CheckpointException)
"""Raised when files are missing, damaged or of another format."""


class ShardedCheckpoint(Checkpoint):
    """A folder shared by all processes; the last complete checkpoint is in a numbered subfolder."""

    def __init__(self, plan: Checkpoint, share: Share, model: Model) -> None:
        """``plan`` has the path, the interval and the identity of the run."""
        super().__init__(plan.path, plan.run, plan.every_seconds)
        self._world = world = share.world
        n_rows = dict.fromkeys(model.per_user, share.n_users)
        n_rows |= dict.fromkeys(model.per_item, share.own.n_items)
        self._n_rows = {
            name: n_rows[table]
            for index, (table, _) in enumerate(model.named_parameters())
            for name in (f"model.{table}", f"best.{table}", f"optimiser.{index}")
        }
        self._mesh = init_device_mesh("cpu", (world.size,))
        latest = max(self._numbers(), default=0)
        self._latest = int(world.texts("checkpoint", str(latest))[0])

    def exists(self) -> bool:
        return self._latest > 0

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _write(self, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        writing = self.path / WRITING
        if self._world.first:
            shutil.rmtree(writing, ignore_errors=True)
            writing.mkdir(parents=True)
        self._world.wait()
        rows = {name: self._as_part(name, value.cpu()) for name, value in tensors.items()}
        with in_contact():
            writer = HuggingFaceStorageWriter(str(writing), save_distributed=True)
            save(rows, storage_writer=writer)
        self._latest += 1
        if self._world.first:
            (writing / METADATA).write_text(json.dumps(metadata), encoding="utf-8")
            _on_disk(writing / METADATA)
            writing.rename(self.path / str(self._latest))
            _on_disk(self.path)
            for number in self._numbers():
                if number < self._latest:
                    shutil.rmtree(self.path / str(number))
        self._world.wait()

    def _read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        folder = self.path / str(self._latest)
        with _readable(folder):
            metadata = json.loads((folder / METADATA).read_text(encoding="utf-8"))
            stored = HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
            rows = {
                name: self._as_part(name, self._room_for(name, about))
                for name, about in stored.items()
                if isinstance(about, TensorStorageMetadata)
            }
            with in_contact():
                load(rows, storage_reader=HuggingFaceStorageReader(str(folder)))
        return {name: _local(value) for name, value in rows.items()}, metadata

    def _as_part(self, name: str, rows: Tensor) -> Tensor:
        """This process's rows as a shard of the whole table.

        Scalars (the step count of Adam) are the same in all processes.
        """
        if rows.dim() == 0:
            return rows
        whole = self._rows_of(name)
        return DTensor.from_local(
            rows,
            self._mesh,
            [Shard(0)],
            run_check=False,
            shape=torch.Size((whole, *rows.shape[1:])),
            stride=rows.stride(),
        )

    def _room_for(self, name: str, about: TensorStorageMetadata) -> Tensor:
        """An empty tensor for this process's rows of a stored table, or for a scalar."""
        shape = list(about.size)
        if shape:
            whole, stored = self._rows_of(name), sum(chunk.sizes[0] for chunk in about.chunks)
            if stored != whole:
                raise ValueError(f"it has {stored} of the {whole} rows of {name}")
            shape[0] = len(self._world.own(whole))
        return torch.empty(shape, dtype=about.properties.dtype)

    def _rows_of(self, name: str) -> int:
        """The number of rows of a stored table; a moment has as many rows as its table."""
        return self._n_rows.get(name) or self._n_rows[name.rpartition(".")[0]]

    def _numbers(self) -> list[int]:
        """The numbers of the complete checkpoints."""
        if not self.path.is_dir():
            return []
        return [int(entry.name) for entry in self.path.iterdir() if entry.name.isdigit()]


def _local(rows: Tensor) -> Tensor:
    return rows.to_local() if isinstance(rows, DTensor) else rows


def _on_disk(path: Path) -> None:
    """Flush a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except UNREADABLE as error:
        raise StorageError(
            f"{folder} cannot be read as a checkpoint ({str(error).strip().partition(chr(10))[0]});"
            f" delete {folder.parent} to start again"
        ) from error
