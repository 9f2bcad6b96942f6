"""ALS (Hu et al. 2008): weighted matrix factorisation by alternating least squares.

The library ``implicit`` does the work, on the CPU: it is what others mean by ALS.
"""

from __future__ import annotations

import torch
from scipy import sparse

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.models.base import Made
from densirank.settings import Settings


class AlternatingLeastSquares(Made):
    """f_u(i) = e_u · e_i with Σ c_ui (r_ui − f_u(i))² + λ(Σ‖e_u‖² + Σ‖e_i‖²) at its least.

    An observed pair has r = 1 and c = α, any other r = 0 and c = 1.
    """

    def __init__(self, data: Interactions, settings: Settings, generator: torch.Generator) -> None:
        try:
            from implicit import als
            from threadpoolctl import threadpool_limits
        except ModuleNotFoundError as error:
            raise InputError(
                "als needs the package implicit; install it with pip install 'densirank[als]'"
            ) from error
        pairs = sparse.csr_matrix(data.matrix())
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
