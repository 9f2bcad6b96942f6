"""What one server is told: the model, who may ask, and how much may be asked."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MAX_K = 1000
MAX_USERS = 100
MAX_HISTORY = 1000
"""Items in one history sent along."""
MAX_ITEMS = 10_000
"""Items in ``items`` or ``exclude``."""
MAX_EXPLAINED = 100
"""Items in one answer that says why."""
MAX_QUERY = 100
"""Characters of a search."""
MAX_LISTED = 200
"""Rows of a search or of a user's history in one answer."""
MAX_ID = 256
"""Characters of an id in a request."""


@dataclass(frozen=True)
class ServeConfig:
    """Everything a worker needs to know; it travels between processes as JSON."""

    folder: Path
    titles: Path | None = None
    api_key_file: Path | None = None
    watch_seconds: float = 1.0  # between two looks at the folder; 0: never
    max_body_bytes: int = 1 << 20
    max_seconds: float = 10.0  # for one request, waiting included
    max_waiting: int = 512  # requests that may wait for their turn; more are turned away
    log_requests: bool = True
    metrics_folder: Path | None = None  # where several workers add up their metrics

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> ServeConfig:
        """The inverse of :meth:`to_json`.

        >>> config = ServeConfig(Path("model"), max_seconds=2)
        >>> ServeConfig.from_json(config.to_json()) == config
        True
        """
        fields: dict[str, Any] = json.loads(text)
        for name in ("folder", "titles", "api_key_file", "metrics_folder"):
            if fields[name] is not None:
                fields[name] = Path(fields[name])
        return cls(**fields)
