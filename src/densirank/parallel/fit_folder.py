"""The output folder of ``densirank fit``, written by the first process."""

from __future__ import annotations

import shutil
from pathlib import Path

from densirank.errors import InputError
from densirank.ranker import Ranker
from densirank.storage import (
    CHECKPOINT,
    MANIFEST,
    SPLIT_CHECKPOINT,
    TRAINING_LOG,
    prepare_folder,
)
from densirank.world import World


def check_overwrite(folder: Path, overwrite: bool) -> None:
    """Raise an error for a folder that holds a model which is not to be replaced."""
    if not overwrite and (folder / MANIFEST).exists():
        raise InputError(
            f"{folder} holds a model: pass --overwrite to replace it, or choose another --out"
        )


class FitFolder:
    """The folder of checkpoint, log and model; all processes must see the same folder."""

    def __init__(self, folder: Path, world: World) -> None:
        self._folder, self._world = folder, world
        own, other = CHECKPOINT, SPLIT_CHECKPOINT
        if world.sharded:
            own, other = other, own
        self.checkpoint, self._others_checkpoint = folder / own, folder / other

    def check(self, resume: bool, overwrite: bool) -> None:
        """Raise an error for a finished model that is not to be replaced, before data are read."""
        checkpoints = self.checkpoint.exists() or self._others_checkpoint.exists()
        if self._world.first and not (resume or checkpoints or self._world.begun()):
            check_overwrite(self._folder, overwrite)

    def prepare(self, resume: bool) -> bool:
        """Prepare the folder for a new or resumed run; False if the run is already complete.

        Processes restarted by torchrun always resume.
        """
        to_do = True
        if self._world.first:
            prepare_folder(self._folder)
            to_do = not (resume and self._finished())
            if not resume and not self._world.begun():
                self._remove(self.checkpoint)
                self._remove(self._others_checkpoint)
                self._remove(self._folder / TRAINING_LOG)
            self._world.begin()
        return not self._world.any(not to_do)

    def keep(self, ranker: Ranker) -> bool:
        """Save the model; delete the checkpoint unless interrupted, which is returned."""
        interrupted = False
        if self._world.first:
            ranker.save(self._folder)
            interrupted = bool(ranker.training_.get("interrupted"))
            if not interrupted:
                self._remove(self.checkpoint)
        return self._world.any(interrupted)

    def _finished(self) -> bool:
        if self.checkpoint.exists():
            return False
        if self._others_checkpoint.exists():
            how = "without torchrun" if self._world.sharded else "under torchrun"
            raise InputError(
                f"{self._others_checkpoint} was written by a run {how}: resume it {how} "
                "(with any number of processes), or start again without --resume"
            )
        return (self._folder / MANIFEST).exists()

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
