"""The model that is being served, and how another one takes its place while requests run.

A request takes the engine once and keeps it; a reload puts another engine in its place, and the old
one goes when the last request that holds it is done. A folder that cannot be read changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

from densirank.errors import DensirankError, StorageError
from densirank.serving.config import ServeConfig
from densirank.serving.engine import Engine
from densirank.serving.metrics import Metrics
from densirank.storage import MANIFEST

log = logging.getLogger("densirank.serving")

ATTEMPTS = 5
"""Loads of a folder that is written to while it is read."""


class LiveModel:
    """The current engine of one process."""

    def __init__(self, config: ServeConfig, metrics: Metrics) -> None:
        self._config = config
        self._metrics = metrics
        self._lock = threading.Lock()
        self._version = self._version_on_disk()
        self.engine = self._load()
        self.failure: str | None = None
        metrics.serves(None, self.engine)

    def reload(self) -> bool:
        """Serve what the folder holds now; whether it is another model than before.

        Raises what is wrong with the folder, and goes on with the old model then.
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
                log.error("the old model stays, as the new one cannot be loaded: %s", error)
                raise
            old, self.engine, self.failure = self.engine, engine, None
            self._metrics.serves(old, engine)
            log.info("model %s took the place of %s", engine.fingerprint, old.fingerprint)
            return old.fingerprint != engine.fingerprint

    async def watch(self) -> None:
        """Reload whenever the model or the titles change, for ever."""
        while True:
            await asyncio.sleep(self._config.watch_seconds)
            if self._version_on_disk() != self._version:
                await asyncio.to_thread(self._reload_quietly)

    def _reload_quietly(self) -> None:
        try:
            self.reload()
        except (DensirankError, OSError):
            return  # said in the log, counted in the metrics and kept in ``failure``

    def _load(self) -> Engine:
        """The folder's model; where it changes while it is read, the one it changes to."""
        for _ in range(ATTEMPTS):
            before = self._version_on_disk()
            try:
                engine = Engine.load(self._config.folder, self._config.titles)
            except (DensirankError, OSError):
                if self._version_on_disk() == before:
                    raise
                continue
            if self._version_on_disk() == before:
                return engine
        raise StorageError(f"{self._config.folder} changes faster than it can be read")

    def _version_on_disk(self) -> tuple[tuple[int, int, int] | None, ...]:
        paths = (self._config.folder / MANIFEST, self._config.titles)
        return tuple(_identity(path) for path in paths if path is not None)


def _identity(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is replaced or written to; None: there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
