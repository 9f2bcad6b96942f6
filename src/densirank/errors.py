"""The errors a user of densirank meets: each a clear sentence that names what and where."""

from __future__ import annotations


class DensirankError(Exception):
    """Something the caller can put right; its text is one sentence fit to be shown as it is."""


class InputError(DensirankError, ValueError):
    """Data, ids or settings that cannot be used as they are."""


class StorageError(DensirankError):
    """A model, a checkpoint or a record that is damaged, foreign or of another format."""


class TrainingError(DensirankError):
    """Training that cannot go on, such as a loss that is no longer finite."""


class NotFittedError(DensirankError, AttributeError):
    """Something was asked of a ranker that only a fit can tell."""
