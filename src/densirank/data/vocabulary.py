"""Vocabularies: the original ids of users or items and their indices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from densirank.errors import InputError

Ids = int | str | np.integer[Any] | Iterable[int] | Iterable[str] | NDArray[Any]
"""One original id or several: a list, a set, a generator, an array or a Series, for example."""

_ABSENT = int(np.iinfo(np.int64).min)  # not an id: stands for a string that is no integer
_PART = 1 << 20  # rows of a long column processed at a time, to save memory
_NAMED = 10
"""Unknown ids that a message names; it counts the others."""


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
            unknown = list(dict.fromkeys(wanted[indices < 0].tolist()))
            raise InputError(f"the model does not know the {what} {named(unknown)}")
        return indices

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


def named(ids: Collection[object]) -> str:
    """The first ten ids, and how many more there are.

    >>> named(["tea", "jam"]), named(range(12))
    ('tea, jam', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more')
    """
    more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
    return ", ".join(str(i) for i, _ in zip(ids, range(_NAMED), strict=False)) + more


def listed(ids: Any) -> NDArray[Any]:
    """One id or several as an array of ids.

    >>> listed("tea").tolist(), listed(np.int64(7)).tolist(), listed({7, 5}).tolist()
    (['tea'], [7], [5, 7])
    """
    if isinstance(ids, np.ndarray) and ids.ndim == 0:
        ids = ids[()]
    one = isinstance(ids, str | bytes | np.generic) or not isinstance(ids, Iterable)
    return as_ids([ids] if one else ids)


def as_ids(ids: Any) -> NDArray[Any]:
    """Ids as an int64 array or an object array of strings; other types are errors.

    The ids of a set are sorted: its own order changes from run to run.
    """
    array = _column(ids)
    if array.ndim != 1:
        raise InputError(f"ids must be a flat list, not one of {array.ndim} dimensions")
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and int(array.max()) > np.iinfo(np.int64).max:
            raise InputError(f"the id {array.max()} exceeds 64-bit integers")
        return array.astype(np.int64, copy=False)
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind in "UT":
        array = array.astype(object)
    if array.dtype == object and all(isinstance(value, str) for value in array):
        _check_unicode(array)
        return array
    if any(_is_missing(value) for value in array):
        raise InputError("an id is missing: ids must be integers or strings")
    if array.dtype != object:
        raise InputError(f"ids must be integers or strings, not {array.dtype.name} values")
    if not all(_is_integer(value) for value in array):
        misfit = next((v for v in array if not (isinstance(v, str) or _is_integer(v))), None)
        wrong = "both" if misfit is None else type(misfit).__name__
        raise InputError(f"ids must be all integers or all strings, not {wrong}")
    try:
        return array.astype(np.int64)
    except OverflowError:
        largest = max(array, key=abs)
        raise InputError(f"the id {largest} exceeds 64-bit integers") from None


def _column(ids: Any) -> NDArray[Any]:
    """Ids in any container as an array; strings and what is mixed as an array of objects."""
    if isinstance(ids, set | frozenset):
        try:
            ids = sorted(ids)
        except TypeError:  # of several types, which is refused with the others
            ids = list(ids)
    if not hasattr(ids, "__array__") and not isinstance(ids, range):
        ids = list(ids)  # a tuple, a generator or the keys of a dictionary
    # A list must not become an array of strings of one width: a single long id would widen every
    # row, numbers among the strings would silently become text, and True would become 1.
    as_they_are = isinstance(ids, list) and any(isinstance(i, str | bool | np.bool_) for i in ids)
    try:
        return np.asarray(ids, dtype=object if as_they_are else None)
    except (ValueError, TypeError, OverflowError):
        raise InputError("ids must be a flat list of integers or of strings") from None


def _is_missing(value: object) -> bool:
    """Whether this is None, NaN or one of pandas' two other ways to say so."""
    return type(value).__name__ in ("NoneType", "NAType", "NaTType") or (
        isinstance(value, float) and value != value
    )


def _is_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _check_unicode(ids: NDArray[Any]) -> None:
    """Refuse half a surrogate pair: no file, terminal or response can hold it."""
    for start in range(0, len(ids), _PART):
        part = ids[start : start + _PART].tolist()
        try:
            "".join(part).encode()
        except UnicodeEncodeError:
            bad = next(text for text in part if any("\ud800" <= c <= "\udfff" for c in text))
            raise InputError(f"the id {bad!r} is not valid Unicode text") from None


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
