from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.errors import InputError

Contents = Callable[[Interactions], dict[str, Any]]


@pytest.mark.parametrize(
    "pairs",
    [
        [(3, 7), (1, 7), (3, 5)],
        ((3, 7), [1, 7], (np.int64(3), 5)),
        iter([(3, 7), (1, 7), (3, 5)]),
        np.array([[3, 7], [1, 7], [3, 5]]),
    ],
)
def test_pairs(pairs: Any, contents: Contents) -> None:
    assert contents(read(pairs)) == contents(Interactions.from_pairs([3, 1, 3], [7, 7, 5]))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "no interactions"),
        (["ab", "cd"], "element 1 is 'ab'"),
        ([(1, 2), (3, 4, 5)], r"element 2 is \(3, 4, 5\)"),
        ([(1, 2), 3], "element 2 is 3"),
        ([(1, 2), ("a", 3)], "all integers or all strings"),
        ((np.arange(2), np.arange(2)), "element 1 is array"),
        (7, "cannot read interactions from int"),
    ],
)
def test_what_are_no_pairs(pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(pairs)


@pytest.mark.parametrize(
    "form",
    [sparse.csr_array, sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix, sparse.lil_array],
)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32, np.uint64])
def test_matrices_of_ones(form: Callable[..., Any], dtype: type) -> None:
    dense: NDArray[Any] = np.array([[0, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]], dtype=dtype)
    data = read(form(dense), shape=(3, 4))
    assert (data.matrix().toarray() == dense).all()
    assert data.user_ids.ids.tolist() == [0, 1, 2]
    assert data.item_ids.ids.tolist() == [0, 1, 2, 3]
    assert data.weights is None
    assert not data.ordered


def test_matrix_values_are_weights_and_explicit_zeros_are_nothing() -> None:
    matrix = sparse.csr_array(
        (np.array([2.0, 0.0, 0.5]), np.array([3, 0, 1]), np.array([0, 2, 3])), shape=(2, 4)
    )
    data = read(matrix)
    assert list(data.pairs()) == [(0, 3), (1, 1)]
    assert data.weights is not None
    assert data.weights.tolist() == [2.0, 0.5]


def test_order_stored_in_a_matrix_is_kept() -> None:
    matrix = sparse.csr_array((np.ones(2), np.array([3, 0]), np.array([0, 2])), shape=(1, 4))
    data = read(matrix, ordered=True)
    assert data.ordered
    assert data.items.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[1.0, 0.0], [0.0, -1.0]], "-1.0 in row 1, column 1; values must be finite"),
        ([[1.0, np.nan], [0.0, 1.0]], "nan in row 0, column 1"),
        ([[0.0, np.inf]], "inf in row 0, column 1"),
        ([[0.0, 0.0]], "no interactions"),
        ([[1j, 0.0]], "complex128 values where numbers"),
    ],
)
def test_bad_matrices(matrix: list[list[complex]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(sparse.csr_array(np.array(matrix)))


def test_a_transposed_matrix_is_found_out() -> None:
    matrix = sparse.csr_array(np.ones((5, 3)))
    with pytest.raises(InputError, match="is 5 × 3, expected users × items = 3 × 5: is it transp"):
        read(matrix, shape=(3, 5))
    with pytest.raises(InputError, match=r"is 5 × 3, expected users × items = 5 × 4$"):
        read(matrix, shape=(5, 4))


def test_the_text_form_has_no_order_unless_somebody_says_so(tmp_path: Path) -> None:
    path = tmp_path / "train.txt"
    path.write_text("0 5 3\n1\n")
    with pytest.raises(InputError, match="line 2"):
        read(path)
    assert not read(path, allow_empty_users=True).ordered
    said = read(path, allow_empty_users=True, ordered=True)
    assert said.ordered
    assert said.reading is not None
    assert said.reading.order == "said"
    other = path.rename(tmp_path / "train.dat")
    assert len(read(other, format="text", allow_empty_users=True)) == 2


def test_rows_said_to_be_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user,item\n1,9\n1,4\n")
    assert not read(path).ordered
    data = read(path, ordered=True)
    assert data.ordered
    assert list(data.pairs()) == [(1, 9), (1, 4)]


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.parquet", "x.jsonl.gz", "x", "x.weird"])
def test_missing_files_and_folders(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(InputError, match="there is no file") as caught:
        read(path)
    assert str(path) in str(caught.value)
    path.mkdir()
    with pytest.raises(InputError, match="is a folder; a file was expected") as caught:
        read(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("name", ["x.txt.gz", "x.csv.gz", "x.inter.gz", "x.jsonl.gz"])
def test_damaged_gzip(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    packed = gzip.compress(b"1 2 3\n" * 50)
    path.write_bytes(packed[:-12])
    with pytest.raises(InputError, match="is cut short") as caught:
        read(path)
    assert str(path) in str(caught.value)
    path.write_bytes(b"1 2 3\n")
    with pytest.raises(InputError, match="is not a valid gzip file"):
        read(path)
    path.write_bytes(packed[:12] + b"\xff" * 8 + packed[20:])
    with pytest.raises(InputError, match="is not a valid gzip file"):
        read(path)


def test_unknown_suffix_and_format(tmp_path: Path) -> None:
    path = tmp_path / "x.xlsx"
    path.write_text("1 2\n")
    with pytest.raises(InputError, match=r"x\.xlsx: the suffix '.xlsx' is not one of \.txt, \.csv"):
        read(path)
    with pytest.raises(InputError, match="no format 'excel'; the formats are: text, csv"):
        read(path, format="excel")


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("1 2\n")
    with pytest.raises(InputError, match="user_column cannot be used with text input"):
        read(path, user_column="user")
    with pytest.raises(InputError, match="format and header cannot be used with pairs input"):
        read([(1, 2)], format="csv", header=False)
    with pytest.raises(InputError, match="shape cannot be used with pairs input"):
        read([(1, 2)], shape=(1, 1))
