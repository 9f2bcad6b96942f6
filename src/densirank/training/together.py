"""What training asks of the processes that train together, where it is not alone."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Together(Protocol):
    """Several processes, each with its share of the users and of the vectors."""

    def sum_(self, values: Tensor) -> Tensor:
        """Add up the values of all processes, in place."""

    def any(self, flag: bool) -> bool:
        """Whether any process says so."""


class Alone:
    """One process, with all there is."""

    def sum_(self, values: Tensor) -> Tensor:
        return values

    def any(self, flag: bool) -> bool:
        return flag


ALONE = Alone()
