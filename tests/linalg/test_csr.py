from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from densirank.data.interactions import Interactions
from densirank.linalg.csr import Rows, RowsOnDemand, SparsePart, sparse_matrix


@st.composite
def matrices(draw: st.DrawFn) -> sparse.csr_array:
    """Sparse matrices with a distinct number in each entry, some rows empty, perhaps all."""
    n_rows, n_columns = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    cell = st.tuples(st.integers(0, n_rows - 1), st.integers(0, n_columns - 1))
    cells = sorted(draw(st.sets(cell)))
    rows, columns = ([place[axis] for place in cells] for axis in (0, 1))
    numbers = np.arange(1.0, len(cells) + 1)
    return sparse.csr_array((numbers, (rows, columns)), shape=(n_rows, n_columns))


def _rows(matrix: sparse.csr_array) -> Rows:
    indptr, columns = (array.astype(np.int64) for array in (matrix.indptr, matrix.indices))
    return Rows(torch.from_numpy(indptr), torch.from_numpy(columns))


@given(matrices(), st.data())
def test_rows_are_taken_as_scipy_takes_them(matrix: sparse.csr_array, data: st.DataObject) -> None:
    some = st.lists(st.integers(0, matrix.shape[0] - 1), max_size=8)  # in any order, with repeats
    wanted = np.array(data.draw(some), dtype=np.int64)
    expected = matrix[wanted]
    rows = _rows(matrix)
    taken = rows.take(torch.from_numpy(wanted))
    indptr, entries = rows.entries_of(torch.from_numpy(wanted))
    assert len(taken) == len(wanted)
    assert taken.indptr.tolist() == indptr.tolist() == expected.indptr.tolist()
    assert taken.columns.tolist() == expected.indices.tolist()
    assert matrix.data[entries.numpy()].tolist() == expected.data.tolist()


@given(matrices())
def test_every_entry_knows_its_row(matrix: sparse.csr_array) -> None:
    rows = _rows(matrix)
    assert rows.counts.tolist() == np.diff(matrix.indptr).tolist()
    assert rows.row_of_entry.tolist() == matrix.tocoo().row.tolist()


@given(matrices())
def test_sparse_matrix_is_the_matrix_its_parts_describe(matrix: sparse.csr_array) -> None:
    rows = _rows(matrix)
    built = sparse_matrix(rows.indptr, rows.columns, torch.from_numpy(matrix.data), matrix.shape)
    np.testing.assert_array_equal(built.to_dense().numpy(), matrix.toarray())


@given(matrices())
def test_a_sparse_part_of_a_matrix_writes_its_entries_in_the_rows_asked_for(
    matrix: sparse.csr_array,
) -> None:
    wanted = torch.arange(matrix.shape[0]).flip(0)
    scores = torch.ones(matrix.shape)
    SparsePart.of(matrix, torch.device("cpu")).write(scores, wanted)
    np.testing.assert_array_equal(scores.numpy(), matrix.toarray()[::-1])


@given(matrices())
def test_parts_are_joined(matrix: sparse.csr_array) -> None:
    part = SparsePart.of(matrix, torch.device("cpu"))
    halves = torch.arange(matrix.shape[0]).tensor_split(2)
    joined = SparsePart.joined(part.take(half) for half in halves)
    np.testing.assert_array_equal(joined.to_scipy(matrix.shape[1]).toarray(), matrix.toarray())


def test_rows_of_interactions_are_each_users_items_in_their_order() -> None:
    data = Interactions.from_pairs([1, 0, 1, 1], [7, 5, 6, 5])
    rows = Rows.of(data, torch.device("cpu"))
    assert rows.indptr.tolist() == [0, 1, 4]
    assert rows.columns.tolist() == [0, 2, 1, 0]
    assert rows.columns.dtype == rows.indptr.dtype == torch.int64


def test_histories_are_the_rows_of_the_log() -> None:
    data = Interactions.from_pairs([0, 2, 2, 3, 0], [5, 6, 5, 7, 7])
    rows = Rows.of(data, torch.device("cpu"))
    for wanted in ([2, 0, 2], [1], []):
        users = torch.tensor(wanted, dtype=torch.int64)
        taken, expected = RowsOnDemand(data, torch.device("cpu")).take(users), rows.take(users)
        assert torch.equal(taken.indptr, expected.indptr)
        assert torch.equal(taken.columns, expected.columns)
