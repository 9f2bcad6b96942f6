"""ALS (Hu et al. 2008): weighted matrix factorisation by alternating least squares.

The library ``implicit`` does the work, on the CPU: it is what others mean by ALS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights
from densirank.dimensions import Choices, Range, Space
from densirank.errors import InputError
from densirank.linalg.csr import Rows
from densirank.models.base import Made, NewUsers, Trained, VectorSettings
from densirank.settings import Number, Settings, Whole, setting
from densirank.solvers.least_squares import least_squares

MEAN_WEIGHT = "mean_weight"


@dataclass(frozen=True)
class ALSSettings(VectorSettings):
    """ALS."""

    searched: ClassVar[Space] = {
        "confidence": Range(1.0, 200.0, log=True),
        "l2": Range(1e-3, 500.0, log=True),
        "dim": Choices((32, 64, 128, 256)),
    }

    l2: float = setting(200.0, Number(), "Weight λ of the squared norms.")
    iterations: int = setting(10, Whole(1), "Times that all vectors are solved for.")
    confidence: float = setting(
        80.0, Number(), "α: an observed pair weighs α (times its weight), an unobserved one 1."
    )


class AlternatingLeastSquares(Made):
    """f_u(i) = e_u · e_i with Σ c_ui (r_ui − f_u(i))² + λ(Σ‖e_u‖² + Σ‖e_i‖²) at its least.

    An observed pair has r = 1 and c = α w, w being its weight divided by the mean weight of all
    pairs (1 where pairs have none); any other has r = 0 and c = 1.
    """

    name = "als"
    settings = ALSSettings
    folds_in = True
    uses_weights = True

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        assert isinstance(settings, ALSSettings)
        return cls(data, settings, generator)

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        """A linear system for each user, the one that fitting solves."""
        settings, items = trained.settings, trained.item_vectors
        assert isinstance(settings, ALSSettings)
        rows = Rows.of(histories, items.device)
        own = least_squares(
            items,
            rows,
            observed=settings.confidence,
            unobserved=1.0,
            l2=settings.l2,
            weights=_weights_of_new(trained, histories),
        )
        return NewUsers(own, own)

    def __init__(
        self, data: Interactions, settings: ALSSettings, generator: torch.Generator
    ) -> None:
        try:
            from implicit import als
            from threadpoolctl import threadpool_limits
        except ModuleNotFoundError as error:
            raise InputError(
                "als needs the package implicit; install it with pip install 'densirank[als]'"
            ) from error
        pairs = sparse.csr_matrix(data.matrix())
        if data.weights is not None:
            pairs.data = (data.weights / _mean(data.weights)).astype(np.float32)
        with threadpool_limits(1, "blas"):  # its own threads would wait for those of BLAS
            solver = als.AlternatingLeastSquares(
                factors=settings.dim,
                regularization=settings.l2,
                alpha=settings.confidence,
                use_gpu=False,
                iterations=settings.iterations,
                num_threads=torch.get_num_threads(),
                random_state=int(torch.randint(2**31, (), generator=generator)),
            )
            solver.fit(pairs, show_progress=False)
        super().__init__(
            torch.from_numpy(solver.user_factors), torch.from_numpy(solver.item_factors)
        )
        self._mean_weight = None if data.weights is None else _mean(data.weights)

    def kept(self) -> dict[str, Tensor]:
        """The unit of the weights, so that people who are folded in are weighted alike."""
        if self._mean_weight is None:
            return {}
        return {MEAN_WEIGHT: torch.tensor([self._mean_weight], dtype=torch.float64)}


def _mean(weights: NDArray[np.float32]) -> float:
    """The mean weight; of equal ones exactly theirs."""
    largest = float(weights.max())
    return largest * float(np.mean(weights / largest, dtype=np.float64))


def _weights_of_new(trained: Trained, histories: Interactions) -> Tensor | None:
    """The weights of people who come later, in units of the fit's mean.

    A fit without weights has no unit: then a person's own mean is one.
    """
    if histories.weights is None:
        return None
    weights = pair_weights(histories)
    if MEAN_WEIGHT in trained.parameters:
        weights = histories.weights.astype(np.float64) / float(trained.parameters[MEAN_WEIGHT])
    if weights is None or bool((weights == 1).all()):
        return None
    return torch.from_numpy(weights.astype(np.float32)).to(trained.item_vectors.device)
