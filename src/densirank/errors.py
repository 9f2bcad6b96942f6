"""The errors a user of densirank meets: each a clear sentence that names what and where."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType

_LIBRARY = str(Path(__file__).parent)


class DensirankError(Exception):
    """Something the caller can put right; its text is one sentence fit to be shown as it is."""


class InputError(DensirankError, ValueError):
    """Data, ids or settings that cannot be used as they are."""


class StorageError(DensirankError):
    """A model, a checkpoint or a record that is damaged, foreign or of another format."""


class TrainingError(DensirankError):
    """Training that cannot go on, such as a loss that is no longer finite."""


class DensirankWarning(UserWarning):
    """Something that was ignored or replaced, and how much of it; the result is usable."""


class NotFittedError(DensirankError, AttributeError):
    """Something was asked of a ranker that only a fit can tell."""


def warn(sentence: str) -> None:
    """Warn whoever called the library, at the line of theirs that did."""
    level = 2
    caller: FrameType | None = sys._getframe(1)
    while caller is not None and caller.f_code.co_filename.startswith(_LIBRARY):
        caller, level = caller.f_back, level + 1
    warnings.warn(sentence, DensirankWarning, stacklevel=level)
