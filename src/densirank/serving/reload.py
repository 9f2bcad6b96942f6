"""The model being served, and its replacement while requests run.

A request takes the engine once and keeps it. A reload puts another engine in its place, and the old
one is freed when the last request that uses it ends. A folder that cannot be read changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from pathlib import Path

from densirank.errors import DensirankError, StorageError
from densirank.serving.engine import Engine
from densirank.serving.metrics import Metrics
from densirank.storage import MANIFEST

log = logging.getLogger("densirank.serving")

ATTEMPTS = 5
"""Attempts to load a folder that changes while it is read."""

Identity = tuple[int, int, int] | None


class LiveModel:
    """The current engine of one process."""

    def __init__(self, folder: Path, titles: Path | None, metrics: Metrics) -> None:
        self._folder, self._titles, self._metrics = folder, titles, metrics
        self._lock = threading.Lock()
        self._version = self._version_on_disk()
        self.engine = self._load()
        self.failure: str | None = None
        metrics.serving(self.engine.fingerprint, self.engine.ranker.method, 1)

    def reload(self) -> bool:
        """Serve the model that the folder holds now; whether it differs from the one before.

        If it cannot be loaded, the old model stays and the error is raised.
        """
        with self._lock:
            version = self._version_on_disk()
            if version == self._version and self.failure is None:
                return False
            self._version = version
            try:
                engine = self._load()
            except (DensirankError, OSError) as error:
                self.failure = str(error)
                self._metrics.reload_failures.inc()
                log.error("the old model stays: the new one cannot be loaded: %s", error)
                raise
            old, self.engine, self.failure = self.engine, engine, None
            self._metrics.serving(old.fingerprint, old.ranker.method, 0)
            self._metrics.serving(engine.fingerprint, engine.ranker.method, 1)
            log.info("model %s replaced %s", engine.fingerprint, old.fingerprint)
            return old.fingerprint != engine.fingerprint

    async def watch(self, seconds: float) -> None:
        """Reload whenever the model or the titles change; look every so many seconds."""
        while True:
            await asyncio.sleep(seconds)
            if self._version_on_disk() != self._version:
                with suppress(DensirankError, OSError):  # logged, counted and kept in ``failure``
                    await asyncio.to_thread(self.reload)

    def _load(self) -> Engine:
        """Load the folder's model; if the folder changes meanwhile, load it again."""
        for _ in range(ATTEMPTS):
            before = self._version_on_disk()
            try:
                engine = Engine.load(self._folder, self._titles)
            except (DensirankError, OSError):
                if self._version_on_disk() == before:
                    raise
                continue
            if self._version_on_disk() == before:
                return engine
        raise StorageError(f"{self._folder} changes faster than it can be read")

    def _version_on_disk(self) -> tuple[Identity, ...]:
        paths = (self._folder / MANIFEST, self._titles)
        return tuple(_identity(path) for path in paths if path is not None)


def _identity(path: Path) -> Identity:
    """Numbers that change when a file is replaced or written to; None for a missing file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
