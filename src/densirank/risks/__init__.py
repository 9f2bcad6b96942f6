"""What is minimised: functions of vectors and positives that know no model, optimiser or id."""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from densirank.hardware import Hardware
from densirank.risks import fused
from densirank.risks.positives import Positives

Risk = Callable[[Tensor, Tensor, Positives], Tensor]
"""(user vectors, item vectors, positives) → the empirical risk, a differentiable scalar."""

RISKS: Mapping[str, Callable[..., Tensor]] = {
    "pde": fused.pde_risk,
    "wd": fused.wd_risk,
    "mle": fused.mle_risk,
}


def risk_for(hardware: Hardware, name: str) -> Risk:
    """The risk of that name in the form that is fastest there, with memory of its own."""
    if not hardware.half:
        return partial(RISKS[name], workspace=fused.Workspace())
    from densirank.risks import tensor_cores

    return {
        "pde": tensor_cores.pde_risk,
        "wd": tensor_cores.wd_risk,
        "mle": tensor_cores.mle_risk,
    }[name]


__all__ = ["RISKS", "Positives", "Risk", "risk_for"]
