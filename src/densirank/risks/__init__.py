"""What is minimised: functions of vectors and positives that know no model, optimiser or id."""

from collections.abc import Callable, Mapping
from functools import partial

from densirank.device import Hardware
from densirank.risks import fused
from densirank.risks.adversarial import irgan_risk, irwgan_risk
from densirank.risks.base import Risk, in_blocks
from densirank.risks.density import multinomial_risk
from densirank.risks.pairwise import SAMPLERS, Sampler, pairwise_risk
from densirank.risks.pointwise import squared_risk
from densirank.risks.positives import Positives
from densirank.risks.ratio import ratio_risk
from densirank.risks.tiles import Workspace
from densirank.settings import Settings

HALF_PRECISION = ("pde", "wd", "mle")
"""Risks that have kernels for a GPU's tensor cores; they draw nothing, so steps can be replayed."""


def _pairwise(sampler: Sampler) -> Callable[[Settings], Risk]:
    return lambda settings: in_blocks(
        partial(pairwise_risk, sampler=sampler, negatives=settings.negatives)
    )


RISKS: Mapping[str, Callable[[Settings], Risk]] = {
    "pde": lambda settings: partial(fused.pde_risk, workspace=Workspace()),
    "wd": lambda settings: partial(fused.wd_risk, workspace=Workspace()),
    "mle": lambda settings: partial(fused.mle_risk, workspace=Workspace()),
    "multinomial": lambda settings: in_blocks(multinomial_risk),
    **{f"pairwise-{name}": _pairwise(sampler) for name, sampler in SAMPLERS.items()},
    "ratio": lambda settings: in_blocks(partial(ratio_risk, bound=settings.ratio_bound)),
    "squared": lambda settings: partial(squared_risk, unobserved_weight=settings.unobserved_weight),
    "irgan": lambda settings: in_blocks(irgan_risk),
    "irwgan": lambda settings: in_blocks(irwgan_risk),
}


def risk_for(hardware: Hardware, name: str, settings: Settings) -> Risk:
    """The risk of that name in the form that is fastest there, with memory of its own."""
    if not hardware.half:
        return RISKS[name](settings)
    from densirank.risks import tensor_cores

    return {
        "pde": tensor_cores.pde_risk,
        "wd": tensor_cores.wd_risk,
        "mle": tensor_cores.mle_risk,
    }[name]


__all__ = ["HALF_PRECISION", "RISKS", "Positives", "Risk", "risk_for"]
