"""What is minimised: functions of vectors and positives that know no model, optimiser or id."""

from collections.abc import Callable, Mapping

from torch import Tensor

from densirank.risks import fused
from densirank.risks.positives import Positives

Risk = Callable[[Tensor, Tensor, Positives], Tensor]
"""(user vectors, item vectors, positives) → the empirical risk, a differentiable scalar."""

RISKS: Mapping[str, Risk] = {
    "pde": fused.pde_risk,
    "wd": fused.wd_risk,
    "mle": fused.mle_risk,
}

__all__ = ["RISKS", "Positives", "Risk"]
