"""Personal rankings from clicks alone, by estimating the probability of a person's next item."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from densirank._version import __version__

if TYPE_CHECKING:
    from densirank.data.interactions import Interactions
    from densirank.data.reading import read
    from densirank.errors import (
        DensirankError,
        DensirankWarning,
        InputError,
        NotFittedError,
        StorageError,
        TrainingError,
    )
    from densirank.methods import METHODS, register_method
    from densirank.ranker import Ranker, load
    from densirank.search.autofit import autofit
    from densirank.search.tune import tune

__all__ = [
    "METHODS",
    "DensirankError",
    "DensirankWarning",
    "InputError",
    "Interactions",
    "NotFittedError",
    "Ranker",
    "StorageError",
    "TrainingError",
    "__version__",
    "autofit",
    "load",
    "read",
    "register_method",
    "tune",
]

_HOME = {
    "METHODS": "densirank.methods",
    "DensirankError": "densirank.errors",
    "DensirankWarning": "densirank.errors",
    "InputError": "densirank.errors",
    "Interactions": "densirank.data.interactions",
    "NotFittedError": "densirank.errors",
    "Ranker": "densirank.ranker",
    "StorageError": "densirank.errors",
    "TrainingError": "densirank.errors",
    "autofit": "densirank.search.autofit",
    "load": "densirank.ranker",
    "read": "densirank.data.reading",
    "register_method": "densirank.methods",
    "tune": "densirank.search.tune",
}
"""Where each name is imported from when it is first asked for: torch takes a second."""


if not TYPE_CHECKING:  # or every misspelt name would pass the type checker

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'densirank' has no attribute {name!r}")
        value = getattr(import_module(_HOME[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
