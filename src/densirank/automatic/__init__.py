"""A fit that chooses for itself: what to use and how, on held-out items, within a time budget."""

from densirank.automatic.attempts import Attempt
from densirank.automatic.choosing import autofit

__all__ = ["Attempt", "autofit"]
