"""Metrics for Prometheus.

Each of several workers keeps its metrics in files of a shared folder (prometheus_client's
multiprocess mode); the worker that is asked adds them up.
"""

from __future__ import annotations

import os
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The metrics of one process."""

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

    def serving(self, fingerprint: str, method: str, workers: int) -> None:
        """Record whether (1) or not (0) this worker serves a model."""
        self._serving.labels(fingerprint, method).set(workers)

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        if self._folder is None:
            return generate_latest(self._registry)
        _remove_dead_workers(self._folder)
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry, str(self._folder))  # type: ignore[no-untyped-call]
        return generate_latest(registry)


def _remove_dead_workers(folder: Path) -> None:
    """Delete the gauges of workers that have ended; their counters stay."""
    for path in folder.glob("gauge_live*_*.db"):
        pid = int(path.stem.rpartition("_")[2])
        try:
            os.kill(pid, 0)
        except OSError:  # no such process, or one of another user
            path.unlink(missing_ok=True)
