"""One whole training step of LightGCN: ours, the dense risk, the attention form, and the floor.

    python benchmarks/step.py                                   # Gowalla, two cores
    python benchmarks/step.py --device cuda --json step.json

The floor is what no implementation of the step can go below: the three matrix products of the risk
into blocks that are already there, and the six sparse products of the propagation. Each variant
runs in a process of its own; ratios within one run are what counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from densirank.data.catalogue import PUBLIC_SETS, load_public
from densirank.models.lightgcn import LightGCN
from densirank.risks import Positives, Risk, density, fused
from densirank.settings import Settings
from densirank.training.batches import BatchSampler
from densirank.training.trainer import step
from measuring import Measurement, environment, in_own_process, median_seconds, peak_mib

FLOOR_ROWS = (32, 64, 128, 256, 512)
"""Users a block of the floor's products: the floor is the fastest of these, or it would be none."""


@dataclass(frozen=True)
class Case:
    """What is trained, and where."""

    dataset: str
    data_dir: Path | None
    device: str
    repeats: int


def attention_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """The PDE risk with E_p[f] = e_u · Σ_i p_i e_i written as attention, keys being the values."""
    candidates = item_vectors[: positives.n_candidates]
    queries, keys = user_vectors[None, None], candidates[None, None]
    centre = scaled_dot_product_attention(queries, keys, keys, scale=1.0)[0, 0]
    mean_positive = positives.averaging(len(item_vectors), user_vectors.dtype) @ item_vectors
    return (user_vectors * (centre - mean_positive)).sum(dim=1).mean()


RISKS: dict[str, Risk] = {
    "ours, WD": fused.wd_risk,
    "ours, PDE": fused.pde_risk,
    "dense, WD": density.wd_risk,
    "dense, PDE": density.pde_risk,
    "attention, PDE": attention_risk,
}


def measure(variant: str, case: Case) -> Measurement:
    """Time the steps of one variant in this process."""
    data = load_public(case.dataset, "train", case.data_dir)
    settings, device = Settings(), torch.device(case.device)
    model = LightGCN(data, settings.layers, settings.dim, torch.Generator().manual_seed(0))
    model.to(device)
    batches = BatchSampler(data, settings.users_per_batch, settings.candidates, 0, device)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate, fused=True)
    torch.autograd.backward(model.regularised(batches(0).users, batches(0).candidates))
    optimiser.step()  # the optimiser's moments are part of what is there already
    before = peak_mib(case.device)
    iteration = iter(range(1_000_000))

    def one_step() -> None:
        step(model, RISKS[variant], batches(next(iteration)), optimiser, settings)

    works = (
        [floor(model, batches, rows) for rows in FLOOR_ROWS] if variant == "floor" else [one_step]
    )
    seconds = min(median_seconds(work, case.repeats, case.device) for work in works)
    return Measurement(seconds, peak_mib(case.device) - before)


def floor(model: LightGCN, batches: BatchSampler, block_rows: int) -> Callable[[], None]:
    """The products of a step and nothing else."""
    batch = batches(0)
    with torch.no_grad():
        user_vectors, item_vectors = (v.clone() for v in model.vectors())
    users, items = user_vectors[batch.users], item_vectors[batch.items]
    blocks = torch.split(users, block_rows)
    scores = users.new_empty(block_rows, len(items))
    user_gradient, item_gradient = torch.empty_like(users), torch.zeros_like(items)

    def products() -> None:
        for number, block in enumerate(blocks):
            rows = slice(number * block_rows, number * block_rows + len(block))
            torch.mm(block, items.T, out=scores[: len(block)])
            torch.mm(scores[: len(block)], items, out=user_gradient[rows])
            item_gradient.addmm_(scores[: len(block)].T, block)
        for _ in range(2 * model.propagation.layers):
            torch.addmm(user_vectors, model.propagation.to_users, item_vectors)
            torch.addmm(item_vectors, model.propagation.to_items, user_vectors)

    return products


def main() -> None:
    """Measure every variant and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    case = Case(given.dataset, given.data_dir, given.device, given.repeats)

    results = {name: in_own_process(measure, name, case) for name in ("floor", *RISKS)}
    table = Table(title=f"One step on {case.dataset}, {case.device}")
    for heading in ("variant", "seconds", "times the floor", "MiB"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for name, result in results.items():
        times = result.seconds / results["floor"].seconds
        table.add_row(name, f"{result.seconds:.4f}", f"{times:.2f}", f"{result.extra_mib:,.0f}")
    Console().print(table)
    if given.json is not None:
        record = {
            "case": {"dataset": case.dataset, "device": case.device, "repeats": case.repeats},
            "figures": {name: asdict(result) for name, result in results.items()},
            "environment": environment(case.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
