"""What the benchmark and a peer hand each other: a task, and its result.

Nothing of densirank is imported in this folder: its scripts run in environments without it.
"""

from __future__ import annotations

import json
import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 500
"""Users whose scores are held at once."""


@dataclass(frozen=True)
class Task:
    """One fit to make: each user's training items in CSR form, and how to fit them."""

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    n_items: int
    threads: int
    k: int
    settings: dict[str, Any]

    @property
    def n_users(self) -> int:
        return len(self.indptr) - 1

    @property
    def users(self) -> NDArray[np.int64]:
        """The user of every pair, parallel to ``items``."""
        return np.repeat(np.arange(self.n_users), np.diff(self.indptr))

    def save(self, folder: Path) -> None:
        """Write the task to a folder that :meth:`load` reads."""
        np.save(folder / "indptr.npy", self.indptr)
        np.save(folder / "indices.npy", self.items)
        facts = {
            "n_items": self.n_items,
            "threads": self.threads,
            "k": self.k,
            "settings": self.settings,
        }
        (folder / "task.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Task:
        """The task that was saved to a folder."""
        facts = json.loads((folder / "task.json").read_text(encoding="utf-8"))
        return cls(np.load(folder / "indptr.npy"), np.load(folder / "indices.npy"), **facts)


@dataclass(frozen=True)
class Result:
    """The lists a fit led to, and what the fit took."""

    lists: NDArray[np.int32]  # (users, k) unseen items, best first; -1 where there is none left
    seconds: float
    peak_mib: float
    versions: dict[str, str]

    def save(self, folder: Path) -> None:
        """Write the result to a folder that :meth:`load` reads."""
        np.save(folder / "lists.npy", self.lists)
        facts = {"seconds": self.seconds, "peak_mib": self.peak_mib, "versions": self.versions}
        (folder / "result.json").write_text(json.dumps(facts), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Result:
        """The result that was saved to a folder."""
        facts = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        return cls(np.load(folder / "lists.npy"), **facts)


def measured(fit: Callable[[], object]) -> tuple[float, float]:
    """Make a fit; its seconds, and the most memory (MiB) this process had held when it ended."""
    started = time.perf_counter()
    fit()
    return time.perf_counter() - started, peak_mib()


def peak_mib() -> float:
    """The most memory this process has held, as Linux counts it.

    ``getrusage`` would not do: what it tells a new process begins at its parent's peak.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    peak = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert peak is not None
    return int(peak[1]) / 2**10


def best_unseen(
    task: Task, scores: Callable[[NDArray[np.int64]], NDArray[np.float32]]
) -> NDArray[np.int32]:
    """Top unseen items of all users; ``scores`` returns the score rows of some users."""
    lists = np.full((task.n_users, task.k), -1, dtype=np.int32)
    k = min(task.k, task.n_items)
    of_pair = task.users
    for start in range(0, task.n_users, BLOCK):
        users = np.arange(start, min(start + BLOCK, task.n_users))
        block = np.array(scores(users), dtype=np.float32)
        seen = slice(task.indptr[users[0]], task.indptr[users[-1] + 1])
        block[of_pair[seen] - start, task.items[seen]] = -np.inf
        best = np.argpartition(-block, k - 1, axis=1)[:, :k]
        values = np.take_along_axis(block, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        items = np.take_along_axis(best, order, axis=1)
        there = np.take_along_axis(values, order, axis=1) > -np.inf
        lists[users, :k] = np.where(there, items, -1)
    return lists


def versions(*packages: str) -> dict[str, str]:
    """Python and some packages, as they are in this environment."""
    return {"python": platform.python_version()} | {name: version(name) for name in packages}
