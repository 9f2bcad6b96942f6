"""A training step of LightGCN: ours, the dense risk, the attention form, and a lower bound.

    python benchmarks/step.py                                   # Gowalla, two cores
    python benchmarks/step.py --device cuda --json step.json

"dense" is our step with the risk as written in the paper; "plain" is the step in plain PyTorch:
layers recorded by autograd, the dense risk, Adam. On the CPU, the lower bound is the cost that no
implementation can avoid: the three matrix products of the risk into preallocated blocks, and the
six sparse products of the propagation. On a GPU the step is also measured with all items as
candidates, and with all users at once. Each variant runs in a separate process; only ratios within
one run are meaningful.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from densirank import METHODS
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.data.interactions import Interactions
from densirank.device import Hardware
from densirank.linalg.propagation import Propagation
from densirank.models.lightgcn import LightGCN
from densirank.risks import RISKS, Positives, Risk, density
from densirank.settings import Candidates, Optimiser
from densirank.training.batches import Batch, BatchSampler
from densirank.training.optim import optimiser_for
from densirank.training.step import step, steps_on
from measuring import Measurement, environment, in_own_process, median_seconds, peak_mib

FLOOR_ROWS = (64, 128, 256, 512, 1024)
"""Users a block of the floor's products: the floor is the fastest of these, or it would be none."""

STEPS = {"cpu": 1, "cuda": 20}
"""Steps between two readings of the clock, because each reading synchronises a GPU."""


@dataclass(frozen=True)
class Case:
    """What is trained, and where."""

    dataset: str
    data_dir: Path | None
    device: str
    repeats: int


@dataclass(frozen=True)
class Variant:
    """One way to take the step; without a risk of its own, the library's."""

    method: str
    risk: Risk | None = None
    half: bool = False
    candidates: Candidates = "batch"
    users_per_batch: int = 2500
    optimiser: Optimiser = "adam"


def attention_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """The PDE risk with E_p[f] = e_u · Σ_i p_i e_i written as attention, keys being the values."""
    candidates = item_vectors[: positives.n_candidates]
    queries, keys = user_vectors[None, None], candidates[None, None]
    if queries.is_cuda:
        queries, keys = queries.bfloat16(), keys.bfloat16()
    with sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    ):  # cuDNN plans again at each step
        centre = scaled_dot_product_attention(queries, keys, keys, scale=1.0)[0, 0]
    mean_positive = positives.averaging(len(item_vectors), user_vectors.dtype) @ item_vectors
    return (user_vectors * (centre.to(user_vectors.dtype) - mean_positive)).sum(dim=1).mean()


EVERYWHERE = {
    "ours, WD": Variant("wd"),
    "ours, PDE": Variant("pde"),
    "ours, WD, whitened": Variant("wd", optimiser="whitened"),
    "dense, WD": Variant("wd", density.wd_risk),
    "dense, PDE": Variant("pde", density.pde_risk),
    "attention, PDE": Variant("pde", attention_risk),
}
EVERYBODY = 1 << 30
ON_GPU = {
    "half, WD": Variant("wd", half=True),
    "half, PDE": Variant("pde", half=True),
    "half, WD, whitened": Variant("wd", half=True, optimiser="whitened"),
    "half, WD, all items": Variant("wd", half=True, candidates="all"),
    "half, WD, all items, all users": Variant("wd", None, True, "all", EVERYBODY),
}


class PlainLightGCN(LightGCN):
    """The model as it is usually written: one sparse graph, all layers kept for autograd."""

    def __init__(self, data: Interactions, layers: int, dim: int, device: torch.device) -> None:
        super().__init__(data, layers, dim, torch.Generator().manual_seed(0))
        indptr, columns = Propagation(data, layers).edges()
        degrees = indptr.diff()
        rows = torch.arange(len(degrees)).repeat_interleave(degrees)
        scale = degrees.clamp(min=1).float().rsqrt()
        indices, values = torch.stack([rows, columns]), scale[rows] * scale[columns]
        size = (len(degrees), len(degrees))
        self.graph = torch.sparse_coo_tensor(indices, values, size).coalesce().to(device)
        self.layers = layers

    def vectors(self) -> tuple[Tensor, Tensor]:
        layers = [torch.cat([self.user_table, self.item_table])]
        for _ in range(self.layers):
            layers.append(torch.sparse.mm(self.graph, layers[-1]))
        vectors = torch.stack(layers).mean(0)
        return vectors[: len(self.user_table)], vectors[len(self.user_table) :]


def plain_step(model: LightGCN, batch: Batch, optimiser: torch.optim.Optimizer) -> None:
    """One WD step, autograd doing all the work."""
    optimiser.zero_grad()
    users, items = model.vectors()
    risk = density.wd_risk(users[batch.users], items[batch.items], batch.positives)
    own_users, own_items = model.user_table[batch.users], model.item_table[batch.items]
    penalty = (own_users.square().sum(1).mean() + own_items.square().sum(1).mean()) / 2
    torch.autograd.backward(risk + 0.02 * penalty)
    optimiser.step()
    model.clip_(4.5)


def measure_plain(case: Case) -> Measurement:
    """Time the plain steps in this process."""
    data = load_public(case.dataset, "train", case.data_dir)
    device = torch.device(case.device)
    model = PlainLightGCN(data, 3, 64, device).to(device)
    batches = BatchSampler(data, 2500, "batch", 0, device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    before = peak_mib(case.device)
    iteration = iter(range(1_000_000))

    def some_steps() -> None:
        for _ in range(STEPS[case.device]):
            plain_step(model, batches(next(iteration)), optimiser)

    seconds = median_seconds(some_steps, case.repeats, case.device) / STEPS[case.device]
    return Measurement(seconds, peak_mib(case.device) - before)


def measure(variant: Variant | None, case: Case) -> Measurement:
    """Time the steps of one variant, or of the floor, in this process."""
    data = load_public(case.dataset, "train", case.data_dir)
    if variant is None:
        return Measurement(min(floor(data, rows, case) for rows in FLOOR_ROWS), 0)
    settings = METHODS["wd-lgcn"].settings(
        candidates=variant.candidates,
        users_per_batch=variant.users_per_batch,
        optimiser=variant.optimiser,
    )
    hardware = Hardware(torch.device(case.device), variant.half)
    generator = torch.Generator().manual_seed(0)
    model = LightGCN(data, settings.layers, settings.dim, generator).prepare(hardware)
    batches = BatchSampler(data, settings.users_per_batch, settings.candidates, 0, hardware.device)
    optimiser = optimiser_for(model, settings, hardware)
    first = batches(0)
    torch.autograd.backward(model.regularised(first.users, first.candidates))
    optimiser.step()  # the optimiser's moments are part of what is there already
    before = peak_mib(case.device)
    ours = steps_on(
        hardware, model, RISKS[variant.method].on(hardware, settings), batches, optimiser, settings
    )
    iteration = iter(range(1_000_000))

    def some_steps() -> None:
        for _ in range(STEPS[case.device]):
            if variant.risk is None:
                ours(next(iteration))
            else:
                step(model, variant.risk, batches(next(iteration)), optimiser, settings)

    seconds = median_seconds(some_steps, case.repeats, case.device) / STEPS[case.device]
    return Measurement(seconds, peak_mib(case.device) - before)


def floor(data: Interactions, block_rows: int, case: Case) -> float:
    """Seconds of the products of a step and nothing else."""
    settings = METHODS["wd-lgcn"].settings()
    propagation = Propagation(data, settings.layers)
    generator = torch.Generator().manual_seed(0)
    user_vectors = torch.randn(data.n_users, settings.dim, generator=generator)
    item_vectors = torch.randn(data.n_items, settings.dim, generator=generator)
    batch = BatchSampler(data, settings.users_per_batch, "batch", 0, torch.device("cpu"))(0)
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
        for _ in range(2 * settings.layers):
            torch.addmm(user_vectors, propagation.to_users, item_vectors)
            torch.addmm(item_vectors, propagation.to_items, user_vectors)

    return median_seconds(products, case.repeats, case.device)


def main() -> None:
    """Measure every variant and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--variants", nargs="+", help="some of the variants, the base first")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    case = Case(given.dataset, given.data_dir, given.device, given.repeats)

    variants: dict[str, Variant | None] = {}
    variants |= ON_GPU if case.device == "cuda" else {"floor": None}
    variants |= EVERYWHERE
    chosen = given.variants or [*variants, "plain, WD"]
    results = {
        name: in_own_process(measure_plain, case)
        if name == "plain, WD"
        else in_own_process(measure, variants[name], case)
        for name in chosen
    }
    base_name, base = next(iter(results.items()))
    table = Table(title=f"One step on {case.dataset}, {case.device}")
    for heading in ("variant", "milliseconds", f"times {base_name}", "MiB"):
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for name, result in results.items():
        times = result.seconds / base.seconds
        table.add_row(
            name, f"{1000 * result.seconds:.2f}", f"{times:.2f}", f"{result.extra_mib:,.0f}"
        )
    Console().print(table)
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "case": {"dataset": case.dataset, "device": case.device, "repeats": case.repeats},
            "figures": {name: asdict(result) for name, result in results.items()},
            "environment": environment(case.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
