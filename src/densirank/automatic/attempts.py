"""What was tried, how well it ranked the held-out items, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Attempt:
    """A method with settings, fitted without the held-out items and judged by them."""

    method: str
    settings: dict[str, Any]
    ndcg: float
    """Validation nDCG@20; 0 where training diverged."""
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "settings": dict(self.settings),
            "validation_ndcg@20": self.ndcg,
            "seconds": round(self.seconds, 3),
        }

    def __str__(self) -> str:
        return f"{self.method}: " + ", ".join(f"{k} {v}" for k, v in self.settings.items())


POPULARITY = Attempt("popularity", {}, 0.0, 0.0)
"""What there is to fall back on where nothing can be tried."""


def best_of(attempts: Sequence[Attempt]) -> Attempt:
    """The one that ranked best, the first among equals: what is simple is tried first."""
    return max(attempts, key=lambda attempt: attempt.ndcg, default=POPULARITY)
