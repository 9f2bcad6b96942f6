from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from densirank.linalg.gather import distinct_rows


@given(st.integers(1, 6))
def test_rows_and_gradients_are_those_of_indexing(n_rows: int) -> None:
    generator = torch.Generator().manual_seed(n_rows)
    rows = torch.randperm(n_rows, generator=generator)[: 1 + n_rows // 2]
    weights = torch.randn(len(rows), 3, generator=generator)
    tables = [torch.randn(n_rows, 3, generator=generator.manual_seed(1)) for _ in range(2)]
    fast, plain = (table.requires_grad_() for table in tables)
    taken = distinct_rows(fast, rows)
    assert torch.equal(taken, plain[rows])
    torch.autograd.backward([(taken * weights).sum(), (plain[rows] * weights).sum()])
    assert fast.grad is not None
    assert plain.grad is not None
    assert torch.equal(fast.grad, plain.grad)
