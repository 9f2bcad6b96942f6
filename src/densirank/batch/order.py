"""What a process must be told to make parts of a batch: it may be a process on another machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from densirank import load
from densirank.batch.parts import PART_USERS, Batch
from densirank.errors import InputError
from densirank.storage import model_fingerprint


@dataclass(frozen=True)
class Order:
    """Everybody's lists by a stored model, wanted in a file."""

    model: Path
    target: Path
    k: int
    approximate: bool
    device: str
    part_users: int = PART_USERS

    def batch(self) -> Batch:
        """The work, with the model in memory."""
        fingerprint = model_fingerprint(self.model)
        ranker = load(self.model, self.device)
        if model_fingerprint(self.model) != fingerprint:
            raise InputError(
                f"the model in {self.model} was replaced while it was read: run this again"
            )
        return Batch(ranker, fingerprint, self.target, self.k, self.approximate, self.part_users)
