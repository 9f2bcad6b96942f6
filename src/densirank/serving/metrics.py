"""What operators watch, for Prometheus.

With several workers each keeps its figures in files of a shared folder (prometheus_client's
multiprocess mode), and whichever of them is asked adds up all.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

if TYPE_CHECKING:
    from densirank.serving.engine import Engine

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The figures of one process."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "densirank_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "densirank_request_seconds",
            "Seconds from a request to its answer.",
            ("route",),
            buckets=BUCKETS,
            registry=registry,
        )
        self.batched = Histogram(
            "densirank_batch_requests",
            "Requests that were computed together.",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=registry,
        )
        self.reload_failures = Counter(
            "densirank_reload_failures",
            "Models that could not be loaded; the old one stayed.",
            registry=registry,
        )
        self._serving = Gauge(
            "densirank_model_workers",
            "Workers that serve this model.",
            ("model", "method"),
            registry=registry,
            multiprocess_mode="livesum",
        )

    def serves(self, old: Engine | None, new: Engine) -> None:
        """Another model is served from now on."""
        if old is not None:
            self._serving.labels(old.fingerprint, old.ranker.method).set(0)
        self._serving.labels(new.fingerprint, new.ranker.method).set(1)

    def text(self) -> bytes:
        """Everything in Prometheus's text form."""
        if self._folder is None:
            return generate_latest(self._registry)
        _forget_the_dead(self._folder)
        everyone = CollectorRegistry()
        multiprocess.MultiProcessCollector(everyone, str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(everyone)


def _forget_the_dead(folder: Path) -> None:
    """Take workers that ended out of the gauges; what they counted stays counted."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except OSError:  # nobody's number, or by now somebody else's
            path.unlink(missing_ok=True)
