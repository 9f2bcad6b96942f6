"""Choosing settings on held-out items: proposals, trials, and a record that can be gone on with."""

from densirank.dimensions import Choices, Range
from densirank.tuning.search import tune
from densirank.tuning.trials import Study, Trial

__all__ = ["Choices", "Range", "Study", "Trial", "tune"]
