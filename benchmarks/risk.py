"""The fast risks against the readable ones: seconds and extra memory of one loss with gradients.

    python benchmarks/risk.py                      # 2,500 users × 28,000 candidates × 64
    python benchmarks/risk.py --device cuda --json risk.json

Each variant runs in a separate process, to measure its peak memory. Absolute times differ between
machines; only ratios within one run are meaningful.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from densirank.risks import Positives, density, fused
from measuring import Measurement, environment, in_own_process, median_seconds, peak_mib

RISKS = ("pde_risk", "wd_risk", "mle_risk")


@dataclass(frozen=True)
class Case:
    """The size of a batch."""

    users: int
    candidates: int
    dim: int
    positives_a_user: int
    device: str
    repeats: int


def inputs(case: Case) -> tuple[Tensor, Tensor, Positives]:
    """Random vectors of the norms that training has, and random positives."""
    random = np.random.default_rng(0)
    counts = 1 + random.poisson(case.positives_a_user - 1, case.users)
    columns = random.integers(0, case.candidates, counts.sum())
    positives = Positives(
        torch.from_numpy(np.concatenate(([0], np.cumsum(counts)))).to(case.device),
        torch.from_numpy(columns).to(case.device),
        n_candidates=case.candidates,
        all_are_candidates=True,
    )
    generator = torch.Generator().manual_seed(0)
    users, items = (
        (0.3 * torch.randn(n, case.dim, generator=generator)).to(case.device).requires_grad_()
        for n in (case.users, case.candidates)
    )
    return users, items, positives


def measure(variant: str, risk: str, case: Case) -> Measurement:
    """Loss and gradients, over and over, in this process."""
    function = getattr({"reference": density, "fast": fused}[variant], risk)
    users, items, positives = inputs(case)
    before = peak_mib(case.device)
    seconds = median_seconds(
        lambda: torch.autograd.grad(function(users, items, positives), (users, items)),
        case.repeats,
        case.device,
    )
    return Measurement(seconds, peak_mib(case.device) - before)


def main() -> None:
    """Measure every risk both ways and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=2500)
    parser.add_argument("--candidates", type=int, default=28_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--positives", type=int, default=27, help="positives a user")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    case = Case(
        given.users, given.candidates, given.dim, given.positives, given.device, given.repeats
    )

    table = Table(title=f"{case.users:,} users × {case.candidates:,} candidates × {case.dim}")
    for heading in ("risk", "reference", "fast", "times faster", "MiB", "MiB", "times less"):
        table.add_column(heading, justify="left" if heading == "risk" else "right")
    figures = {}
    for risk in RISKS:
        results = {
            variant: in_own_process(measure, variant, risk, case)
            for variant in ("reference", "fast")
        }
        slow, fast = results["reference"], results["fast"]
        faster = slow.seconds / fast.seconds
        less = slow.extra_mib / max(fast.extra_mib, 1.0)
        table.add_row(
            risk, f"{slow.seconds:.3f} s", f"{fast.seconds:.3f} s", f"{faster:.1f}",
            f"{slow.extra_mib:,.0f}", f"{fast.extra_mib:,.0f}", f"{less:.0f}",
        )  # fmt: skip
        figures[risk] = {
            **{variant: asdict(result) for variant, result in results.items()},
            "times_faster": faster,
            "times_less_memory": less,
        }
    Console().print(table)
    if given.json is not None:
        record = {
            "case": asdict(case),
            "figures": figures,
            "environment": environment(case.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
