from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from densirank import Ranker
from densirank.linalg.csr import Rows, SparsePart

TEXT = [(f"u{u}", f"i{i}") for u in range(6) for i in range(8) if (u + i) % 3]
NUMBERS = [(10 * u, 100 + i) for u in range(6) for i in range(8) if (u + i) % 3]


@pytest.fixture(params=["text ids", "numbers", "sparse part", "filter"])
def ranker(request: pytest.FixtureRequest) -> Ranker:
    pairs = TEXT if request.param == "text ids" else NUMBERS
    weight = 0.5 if request.param == "filter" else 0.0
    ranker = Ranker("wd-mf", device="cpu", dim=4, iterations=5, filter_weight=weight).fit(pairs)
    if request.param == "sparse part":
        rows = Rows(torch.tensor([0, 2, 2, 5, 5, 5, 6]), torch.tensor([1, 4, 0, 3, 7, 2]))
        values = torch.tensor([3.0, 1.0, 2.0, 0.5, 9.0, 4.0])
        ranker.scorer_ = replace(ranker.scorer_, sparse_part=SparsePart(rows, values))
    return ranker
