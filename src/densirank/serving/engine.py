"""One loaded model and everything that is made once so that requests need not make it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.ranker import Ranker, load
from densirank.serving.errors import unknown
from densirank.serving.titles import Titles, read_titles
from densirank.storage import MANIFEST
from densirank.stored_index import describe_index

Answer = dict[str, Any]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Engine:
    """What requests are answered with. Nothing of it changes, so a request may keep it."""

    ranker: Ranker
    manifest: Answer
    fingerprint: str  # of the model: its manifest names every file and its SHA-256
    titles: Titles
    by_popularity: Indices
    index: Answer | None  # how good the model's index is, if it has one

    @classmethod
    def load(cls, folder: Path, titles: Path | None) -> Engine:
        """Read a model folder and the titles of its items."""
        ranker = load(folder, "cpu")
        manifest = (folder / MANIFEST).read_bytes()
        described: Answer = json.loads(manifest)
        index = describe_index(folder, described["files"]["vectors"]["sha256"])
        data = ranker.interactions_
        return cls(
            ranker,
            described,
            hashlib.sha256(manifest).hexdigest()[:16],
            read_titles(titles, data.item_ids),
            np.argsort(-data.item_counts, kind="stable"),
            None if index is None else index["measured"],
        )

    @property
    def data(self) -> Interactions:
        return self.ranker.interactions_

    def item(self, index: int) -> Answer:
        """An item as answers name it."""
        return {"id": self.data.item_ids[index], "title": self.titles[index]}

    def known(self, ids: Sequence[int | str], what: Literal["user", "item"]) -> Indices:
        """The indices of ids that the model must know."""
        indices = self.indices(ids, what)
        if (indices < 0).any():
            raise unknown(what, ids[int(np.argmax(indices < 0))])
        return indices

    def indices(self, ids: Sequence[int | str], what: Literal["user", "item"]) -> Indices:
        """The indices of ids, -1 for an unknown one; numbers may be spelt out."""
        vocabulary: Vocabulary = self.data.user_ids if what == "user" else self.data.item_ids
        spelt = any(isinstance(i, str) for i in ids)
        return vocabulary.indices([str(i) for i in ids] if spelt else list(ids))
