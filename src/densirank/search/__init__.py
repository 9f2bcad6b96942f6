"""Choosing settings on held-out items: :func:`densirank.tune` and :func:`densirank.autofit`."""

from densirank.dimensions import Choices, Range
from densirank.search.study import Study
from densirank.search.trial import Trial

__all__ = ["Choices", "Range", "Study", "Trial"]
