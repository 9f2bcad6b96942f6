"""Vocabularies: the original ids of users or items and their indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from densirank.errors import InputError

Ids = int | str | Sequence[int] | Sequence[str] | NDArray[Any]
"""One original id or several."""

_ABSENT = int(np.iinfo(np.int64).min)  # not an id: stands for a string that is no integer
_PART = 1 << 20  # rows of a long column processed at a time, to save memory


class Vocabulary:
    """The original ids, integers or strings, at their indices.

    Ids are sorted, so the index of an id does not depend on the order of a log.

    >>> items = Vocabulary(["pear", "apple"])
    >>> items.indices(["pear", "plum"]).tolist()   # -1: unknown
    [1, -1]
    >>> items[0]
    'apple'
    """

    def __init__(self, ids: ArrayLike) -> None:
        self.ids = np.unique(as_ids(ids))
        self.ids.flags.writeable = False

    @classmethod
    def from_sorted(cls, ids: NDArray[Any]) -> Vocabulary:
        """A vocabulary of unique, ascending ids, without sorting them again."""
        vocabulary = cls.__new__(cls)
        vocabulary.ids = ids
        vocabulary.ids.flags.writeable = False
        return vocabulary

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> int | str:
        value = self.ids[index]
        return value if isinstance(value, str) else int(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and np.array_equal(self.ids, other.ids)

    __hash__ = None  # type: ignore[assignment]

    @property
    def is_text(self) -> bool:
        """Whether the ids are strings; otherwise they are integers."""
        return self.ids.dtype == object

    def indices(self, ids: ArrayLike) -> NDArray[np.int64]:
        """The index of each id; -1 for an unknown one."""
        wanted = as_ids(ids)
        if len(wanted) == 0 or len(self.ids) == 0:
            return np.full(len(wanted), -1, dtype=np.int64)
        if (wanted.dtype == object) != self.is_text:
            wanted = _in_kind(wanted, text=self.is_text)
        if self.is_text:
            position = self._position_of_text
            return np.fromiter((position.get(i, -1) for i in wanted), np.int64, len(wanted))
        found = np.searchsorted(self.ids, wanted).clip(max=len(self.ids) - 1)
        return np.where(self.ids[found] == wanted, found, -1)

    def known(self, ids: Ids, what: str) -> NDArray[np.int64]:
        """The indices of ids; an unknown one is an error, which names it a ``what``.

        >>> Vocabulary([5, 7]).known(7, "item").tolist()
        [1]
        """
        wanted = listed(ids)
        indices = self.indices(wanted)
        if (indices < 0).any():
            unknown = [
                str(i) for i, index in zip(np.asarray(wanted), indices, strict=True) if index < 0
            ]
            more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
            raise InputError(f"the model does not know the {what} {', '.join(unknown[:3])}{more}")
        return indices

    def knows_all(self, ids: Ids) -> bool:
        """Whether all of these ids are known."""
        return bool((self.indices(listed(ids)) >= 0).all())

    def union(self, other: Vocabulary, what: str) -> Vocabulary:
        """The ids of both, in the type of this one; ``what`` names them in an error.

        >>> Vocabulary([5, 7]).union(Vocabulary(["7", "9"]), "item").ids.tolist()
        [5, 7, 9]
        """
        return Vocabulary(np.concatenate([self.ids, self.alike(other.ids, what)]))

    def alike(self, ids: ArrayLike, what: str) -> NDArray[Any]:
        """Ids in the type of this vocabulary: strings of digits as integers, for example."""
        given = as_ids(ids)
        if len(given) == 0 or (given.dtype == object) == self.is_text:
            return given
        converted = _in_kind(given, text=self.is_text)
        if not self.is_text and (converted == _ABSENT).any():
            misfit = given[int(np.argmax(converted == _ABSENT))]
            raise InputError(f"the {what} ids of the model are integers, but {misfit!r} is not")
        return converted

    @cached_property
    def _position_of_text(self) -> dict[str, int]:
        return {text: index for index, text in enumerate(self.ids.tolist())}


def listed(ids: Ids) -> ArrayLike:
    """One id as a list; several as they are."""
    return [ids] if isinstance(ids, int | str) else ids


def as_ids(ids: ArrayLike) -> NDArray[Any]:
    """Ids as an int64 array or an object array of strings; other types are errors."""
    starts_as_text = isinstance(ids, list | tuple) and len(ids) > 0 and isinstance(ids[0], str)
    # A list of strings must not become a fixed-width array: a single long id would widen every
    # row, and numbers among the strings would silently become text.
    array = np.asarray(ids, dtype=object if starts_as_text else None)
    if array.ndim != 1:
        raise InputError(f"ids must be a flat list, not one of {array.ndim} dimensions")
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
            raise InputError(f"the id {array.max()} exceeds 64-bit integers")
        return array.astype(np.int64, copy=False)
    if array.dtype.kind in "UT" and isinstance(ids, np.ndarray):
        return array.astype(object)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype == object and all(isinstance(value, str) for value in array):
        return array
    if array.dtype.kind in "UO":
        raise InputError("ids must be all integers or all strings")
    raise InputError(f"ids must be integers or strings, not {array.dtype.name} values")


def _in_kind(ids: NDArray[Any], text: bool) -> NDArray[Any]:
    """The same ids as strings or integers, so that the 7 of one file matches the "7" of another."""
    if text:
        return np.array([str(i) for i in ids], dtype=object)
    return np.array([_int_or_absent(i) for i in ids], dtype=np.int64)


def _int_or_absent(text: str) -> int:
    """The integer that a string represents, or ``_ABSENT``."""
    try:
        number = int(text)
    except ValueError:
        return _ABSENT
    return number if str(number) == text.strip() and abs(number) < 2**63 else _ABSENT


def encode(ids: NDArray[Any]) -> tuple[Vocabulary, NDArray[np.int32]]:
    """(the vocabulary of a column of ids, the index of each row)."""
    if ids.dtype == object or len(ids) == 0:
        return _encode_by_sorting(ids)
    low, high = int(ids.min()), int(ids.max())
    if high - low > 4 * len(ids):
        return _encode_by_sorting(ids)
    present = np.zeros(high - low + 1, dtype=bool)
    parts = [slice(start, start + _PART) for start in range(0, len(ids), _PART)]
    for part in parts:
        present[ids[part] - low] = True
    code_of = np.cumsum(present, dtype=np.int32) - np.int32(1)
    codes = np.empty(len(ids), dtype=np.int32)
    for part in parts:
        codes[part] = code_of[ids[part] - low]
    return Vocabulary.from_sorted(np.flatnonzero(present) + low), codes


def _encode_by_sorting(ids: NDArray[Any]) -> tuple[Vocabulary, NDArray[np.int32]]:
    unique, codes = np.unique(ids, return_inverse=True)
    return Vocabulary.from_sorted(unique), codes.astype(np.int32)
