from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

import densirank
from densirank.csr import Rows
from densirank.risks import Positives, Risk

RiskOfScores = Callable[[Risk, NDArray[np.float64], NDArray[np.bool_]], float]


@pytest.fixture(scope="session")
def risk_of_scores() -> RiskOfScores:
    """A risk of any scores f (users, items) whatever, with all items as candidates.

    A risk takes vectors, and e_u = the u-th unit vector, e_i = the i-th column of f make f.
    """

    def value(risk: Risk, scores: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
        rows = Rows.of(densirank.read(sparse.csr_array(positive)), torch.device("cpu"))
        positives = Positives(rows.indptr, rows.columns, n_candidates=scores.shape[1])
        unit_vectors = torch.eye(len(scores), dtype=torch.float64)
        return float(risk(unit_vectors, torch.from_numpy(scores.T.copy()), positives))

    return value
