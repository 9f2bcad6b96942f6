"""The text form of the LightGCN data sets: one line per user, ``user item item …``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.files import open_file

_BLOCK_BYTES = 16 << 20
_MAX_DIGITS = 19  # of a 64-bit integer; 19 nines still fit the unsigned type
_IS_SPACE = np.isin(np.arange(256), list(b" \t\r\n\v\f"))


def read_text_form(path: str | PathLike[str], *, allow_empty_users: bool = False) -> Interactions:
    """Interactions from lines of ``user item item …``; ids are integers from 0.

    The items of a line keep their places, but are not presumed to be in order of time. Several
    lines of a user are joined. A user without items is an error, or is left out with
    ``allow_empty_users`` (some published test files have such users).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "train.txt")
    ...     _ = file.write_text("0 5 3\\n1 3\\n")
    ...     read_text_form(file)
    Interactions(2 users, 2 items, 3 pairs)
    """
    path = Path(path)
    users, items = [], []
    first_line = 1
    with open_file(path) as stream:
        for block in _whole_lines(stream):
            rows = _Block(block, path, first_line)
            block_users, block_items = rows.pairs(allow_empty_users)
            users.append(block_users)
            items.append(block_items)
            first_line += block.count(b"\n")
    if sum(map(len, users)) == 0:
        raise InputError(f"{path} holds no interactions")
    return Interactions.from_pairs(np.concatenate(users), np.concatenate(items))


def _whole_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The stream in large blocks of whole lines, so that memory stays bounded."""
    rest = b""
    at_start = True
    while block := stream.read(_BLOCK_BYTES):
        if at_start:
            block = block.removeprefix(b"\xef\xbb\xbf")  # the byte-order mark
            at_start = False
        lines, newline, tail = (rest + block).rpartition(b"\n")
        if newline:
            yield lines + newline
        rest = tail
    if rest:
        yield rest


class _Block:
    """Some whole lines of a file, parsed at once with array operations."""

    def __init__(self, text: bytes, path: Path, first_line: int) -> None:
        self.text, self.path, self.first_line = text, path, first_line

    def pairs(self, allow_empty_users: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The user and the item of every pair, in the order of the file."""
        raw = np.frombuffer(self.text, dtype=np.uint8)
        starts, values = self._numbers(raw)
        line = np.searchsorted(np.flatnonzero(raw == ord("\n")), starts)
        leads = np.flatnonzero(np.diff(line, prepend=-1))  # the first number of each line: its user
        counts = np.diff(leads, append=len(values)) - 1
        if not allow_empty_users and (counts == 0).any():
            lonely = leads[np.argmin(counts)]
            raise InputError(
                f"{self.path}, line {self.first_line + line[lonely]}: "
                f"user {values[lonely]} has no items"
            )
        return np.repeat(values[leads], counts), np.delete(values, leads)

    def _numbers(self, raw: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(the start of each number, its value), computed one decimal place at a time."""
        digit = raw - np.uint8(ord("0"))  # wraps around: all other characters are above 9
        is_digit = digit <= 9
        invalid = ~(is_digit | _IS_SPACE[raw])
        if invalid.any():
            raise self._error(int(np.argmax(invalid)))
        edges = np.flatnonzero(np.diff(is_digit, prepend=False, append=False))
        starts, lengths = edges[::2], edges[1::2] - edges[::2]
        values = np.zeros(len(starts), dtype=np.uint64)
        too_large = lengths > _MAX_DIGITS
        for place in range(min(int(lengths.max(initial=0)), _MAX_DIGITS)):
            reaching = np.flatnonzero(lengths > place)
            values[reaching] = values[reaching] * 10 + digit[starts[reaching] + place]
        too_large |= values > np.iinfo(np.int64).max
        if too_large.any():
            raise self._error(int(starts[np.argmax(too_large)]))
        return starts, values.astype(np.int64)

    def _error(self, position: int) -> InputError:
        """The error for the token that contains this byte."""
        line = self.first_line + self.text.count(b"\n", 0, position)
        start = self.text.rfind(b"\n", 0, position) + 1
        tokens = re.finditer(rb"\S+", self.text[start:])
        token = next(t.group() for t in tokens if start + t.end() > position)
        try:
            shown = token.decode()[:40]
        except UnicodeDecodeError:
            return InputError(f"{self.path}, line {line} is not UTF-8 text")
        if token.isdigit():
            return InputError(f"{self.path}, line {line}: the id {shown} exceeds 64-bit integers")
        return InputError(
            f"{self.path}, line {line}: {shown!r} is not an id; the text form has integers from 0, "
            "separated by spaces"
        )
