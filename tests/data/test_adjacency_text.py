from __future__ import annotations

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.data.adjacency_text import read_text_form
from densirank.errors import InputError


def written(folder: Path, content: bytes, name: str = "train.txt") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


spaces = st.sampled_from([" ", "  ", "\t"])
rows = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)), min_size=1),
    ),
    min_size=1,
    max_size=8,
)


@given(rows, st.sampled_from(["\n", "\r\n", " \n", "\n\n"]), spaces, st.integers(1, 40))
def test_agrees_with_a_plain_parser_whatever_the_blocks(
    lines: list[tuple[int, list[int]]], end: str, space: str, block_bytes: int
) -> None:
    text = end.join(space.join(map(str, (user, *items))) for user, items in lines)
    oracle: dict[int, dict[int, None]] = {}
    for user, items in lines:
        row = oracle.setdefault(user, {})
        for item in items:
            row.pop(item, None)
            row[item] = None
    with (
        TemporaryDirectory() as folder,
        patch("densirank.data.adjacency_text._BLOCK_BYTES", block_bytes),
    ):
        data = read_text_form(written(Path(folder), text.encode()))
    assert not data.ordered
    assert list(data.pairs()) == [(user, item) for user in sorted(oracle) for item in oracle[user]]


def test_order_of_a_row_is_kept_and_lines_of_a_user_are_joined(tmp_path: Path) -> None:
    data = read_text_form(written(tmp_path, b"4 9 2\n1 5\n4 7"))
    assert list(data.pairs()) == [(1, 5), (4, 9), (4, 2), (4, 7)]


def test_gzip_and_byte_order_mark(tmp_path: Path) -> None:
    data = read_text_form(written(tmp_path, b"\xef\xbb\xbf0 1 2\n", "train.txt.gz"))
    assert list(data.pairs()) == [(0, 1), (0, 2)]


def test_users_without_items_only_when_allowed(tmp_path: Path) -> None:
    path = written(tmp_path, b"0 1\n1 \n2\n3 4\n")
    with pytest.raises(InputError, match=r"train\.txt, line 2: user 1 has no items"):
        read_text_form(path)
    data = read_text_form(path, allow_empty_users=True)
    assert list(data.pairs()) == [(0, 1), (3, 4)]
    assert data.n_users == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0 1\n\n2 x7 3\n", "line 3: 'x7' is not an id"),
        (b"0 1\n1,2\n", "line 2: '1,2' is not an id"),
        (b"0 1\n0 -2\n", "line 2: '-2' is not an id"),
        (b"0 1.5\n", "line 1: '1.5' is not an id"),
        (b"0 1\n0 9223372036854775808\n", "line 2: the id 9223372036854775808 exceeds 64-bit"),
        (b"0 1\n0 99999999999999999999999\n", "line 2: the id 9+ exceeds 64-bit"),
        (b"0 1\n0 \xff\xfe\x00\n", "line 2 is not UTF-8 text"),
        ("0 1\n0 é\n".encode(), "line 2: 'é' is not an id"),
        (b"", "is empty"),
        (b"\n \n", "holds no interactions"),
    ],
)
@pytest.mark.parametrize("block_bytes", [3, 1 << 20])
def test_bad_lines_are_named(
    tmp_path: Path, content: bytes, message: str, block_bytes: int
) -> None:
    path = written(tmp_path, content)
    with (
        patch("densirank.data.adjacency_text._BLOCK_BYTES", block_bytes),
        pytest.raises(InputError, match=rf"train\.txt.*{message}"),
    ):
        read_text_form(path)


def test_only_empty_users_are_no_interactions(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no interactions"):
        read_text_form(written(tmp_path, b"1\n2\n"), allow_empty_users=True)
