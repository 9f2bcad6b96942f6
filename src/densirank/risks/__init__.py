"""What is minimised: functions of vectors and positives that know no model, optimiser or id."""

from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor

from densirank.risks import fused
from densirank.risks.adversarial import IRGAN, IRWGAN
from densirank.risks.base import Risk, RiskSpec, in_blocks
from densirank.risks.density import multinomial_risk
from densirank.risks.pairwise import PAIRWISE
from densirank.risks.pointwise import SQUARED
from densirank.risks.positives import Positives
from densirank.risks.ratio import RATIO
from densirank.risks.tiles import Workspace
from densirank.risks.weighting import DensitySettings


def _density(name: str, risk: Callable[..., Tensor]) -> RiskSpec:
    def on_tensor_cores() -> Risk:
        from densirank.risks import tensor_cores  # needs triton, which a CPU may be without

        forms: Mapping[str, Risk] = {
            "pde": tensor_cores.pde_risk,
            "wd": tensor_cores.wd_risk,
            "mle": tensor_cores.mle_risk,
        }
        return forms[name]

    return RiskSpec(
        name,
        lambda settings: partial(risk, workspace=Workspace()),
        DensitySettings,
        on_tensor_cores,
        is_density=True,
    )


PDE = _density("pde", fused.pde_risk)
WD = _density("wd", fused.wd_risk)
MLE = _density("mle", fused.mle_risk)
MULTINOMIAL = RiskSpec("multinomial", lambda settings: in_blocks(multinomial_risk))

RISKS: Mapping[str, RiskSpec] = {
    risk.name: risk
    for risk in (
        PDE,
        WD,
        MLE,
        MULTINOMIAL,
        *PAIRWISE.values(),
        RATIO,
        SQUARED,
        IRGAN,
        IRWGAN,
    )
}

__all__ = ["RISKS", "Positives", "Risk", "RiskSpec"]
