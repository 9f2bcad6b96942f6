"""Finding ids and titles by the beginning of what a person types."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank.data.vocabulary import Vocabulary

DIGITS = 19
"""Decimal digits of a 64-bit integer, at most."""


def ids_beginning(vocabulary: Vocabulary, query: str, limit: int) -> list[int]:
    """The indices of the first ids that begin with the query.

    >>> ids_beginning(Vocabulary([1, 5, 12, 100, 130]), "1", limit=3)
    [0, 2, 3]
    >>> ids_beginning(Vocabulary(["tea", "ten", "toast"]), "te", limit=9)
    [0, 1]
    """
    if not query:
        return list(range(min(limit, len(vocabulary))))
    found = _text if vocabulary.is_text else _numbers
    return list(islice(found(vocabulary.ids, query), limit))


def _text(ids: NDArray[Any], query: str) -> Iterator[int]:
    """Text ids stand in order, so those with the same beginning stand together."""
    candidates = range(bisect_left(ids, query), len(ids))
    return takewhile(lambda index: ids[index].startswith(query), candidates)


def _numbers(ids: NDArray[Any], query: str) -> Iterator[int]:
    """The numbers that begin with 12 are 12, 120 to 129, 1200 to 1299 and so on."""
    digits = query.removeprefix("-")
    negative = digits != query
    if not (digits.isascii() and digits.isdigit()) or (digits.startswith("0") and digits != "0"):
        return
    for more in range(DIGITS - len(digits) + 1 if digits != "0" else 1):
        low, high = int(digits) * 10**more, (int(digits) + 1) * 10**more - 1
        if low >= 2**63:
            return
        high = min(high, 2**63 - 1)
        if negative:
            low, high = -high, -low
        start, end = np.searchsorted(ids, low), np.searchsorted(ids, high, side="right")
        yield from range(int(start), int(end))
