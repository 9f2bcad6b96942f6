"""Where the time of a training step goes, and how far each part is from its floor.

    python benchmarks/profile_step.py                            # Gowalla, two cores
    python benchmarks/profile_step.py --device cuda --json profile.json

The floor of a part is the larger of its operations over the matrix rate and its bytes over the
copy rate, both measured in the same run: what the hardware would need if it did nothing else.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from densirank import METHODS
from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.device import Hardware
from densirank.models.lightgcn import LightGCN
from densirank.risks import RISKS
from densirank.training.batches import BatchSampler
from densirank.training.optim import optimiser_for
from densirank.training.step import steps_on
from measuring import environment, median_seconds

REPEATS = 5
STEPS = 20


@dataclass(frozen=True)
class Rates:
    """What this machine does at its best: operations and bytes a second."""

    operations: float
    bytes: float

    @classmethod
    def measured(cls, device: str) -> Rates:
        """A large matrix product and a large copy, in the precision that the step uses."""
        on_gpu = device == "cuda"
        side, length = (8192, 1 << 30) if on_gpu else (2048, 1 << 28)
        dtype = torch.float16 if on_gpu else torch.float32
        square = torch.randn(side, side, device=device).to(dtype)
        product = torch.empty_like(square)
        source = torch.randn(length // 4, device=device)
        target = torch.empty_like(source)
        by_product = median_seconds(lambda: torch.mm(square, square, out=product), REPEATS, device)
        by_copy = median_seconds(lambda: target.copy_(source), REPEATS, device)
        return cls(2 * side**3 / by_product, 2 * length / by_copy)


@dataclass(frozen=True)
class Part:
    """A part of the step: its time, and what it cannot do without."""

    seconds: float
    operations: float = 0.0
    bytes: float = 0.0

    def floor(self, rates: Rates) -> float:
        return max(self.operations / rates.operations, self.bytes / rates.bytes)


class Step:
    """One WD-LGCN step at the paper's setting, ready to be taken and counted."""

    def __init__(self, dataset: str, data_dir: Path | None, device: str) -> None:
        data = load_public(dataset, "train", data_dir)
        self.settings = METHODS["wd-lgcn"].settings(optimiser="adam")
        self.hardware = Hardware(torch.device(device), half=device == "cuda")
        dim, layers = self.settings.dim, self.settings.layers
        generator = torch.Generator().manual_seed(0)
        self.model = LightGCN(data, layers, dim, generator).prepare(self.hardware)
        self.batches = BatchSampler(
            data, self.settings.users_per_batch, "batch", 0, self.hardware.device
        )
        self.optimiser = optimiser_for(self.model, self.settings, self.hardware)
        self.risk = RISKS["wd"].on(self.hardware, self.settings)
        self.take = steps_on(
            self.hardware, self.model, self.risk, self.batches, self.optimiser, self.settings
        )
        batch = self.batches(0)
        self.product = 2.0 * len(batch.users) * len(batch.candidates) * dim  # operations
        numbers = (data.n_users + data.n_items) * dim
        between = 2 if self.hardware.half else 4  # bytes of a number between layers
        edge_bytes = 2 * len(data.items) * (dim * between + (4 if self.hardware.half else 8))
        self.propagation_bytes = 2.0 * layers * (edge_bytes + numbers * (4 + between))
        self.adam_bytes = 7.0 * 4 * numbers  # value, gradient and moments read; all but one written
        self.clip_bytes = 3.0 * 4 * numbers


def gpu_parts(step: Step) -> dict[str, Part]:
    """Kernel times of replayed steps, by what the kernels are for."""
    for iteration in range(STEPS):
        step.take(iteration)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for iteration in range(STEPS):
            step.take(iteration)
        torch.cuda.synchronize()
    kernels: dict[str, float] = {
        event.key: event.device_time_total * 1e-6 / STEPS for event in profile.key_averages()
    }

    def time_of(*names: str) -> float:
        return sum(seconds for key, seconds in kernels.items() if any(n in key for n in names))

    parts = {
        "propagation": Part(time_of("_add_neighbours"), bytes=step.propagation_bytes),
        "risk, user pass": Part(time_of("_user_pass"), operations=3 * step.product),
        "risk, item pass": Part(time_of("_item_pass"), operations=2 * step.product),
        "risk, the rest": Part(time_of("_read_positives", "_combine")),
        "Adam": Part(time_of("multi_tensor_apply"), bytes=step.adam_bytes),
    }
    named = sum(part.seconds for part in parts.values())
    parts["batch, L2, gathers, clipping"] = Part(sum(kernels.values()) - named)
    return parts


def cpu_parts(step: Step) -> dict[str, Part]:
    """Time the parts one by one, after a whole step has done the one-time work."""
    step.take(0)
    batch = step.batches(1)
    model = step.model

    def seconds(work: Callable[[], object]) -> float:
        return median_seconds(work, REPEATS, "cpu")

    with torch.no_grad():
        user_vectors, item_vectors = model.vectors()
    users = user_vectors[batch.users].requires_grad_()
    items = item_vectors[batch.items].requires_grad_()

    def risk() -> None:
        torch.autograd.grad(step.risk(users, items, batch.positives), (users, items))

    def propagate() -> None:
        with torch.no_grad():
            model.vectors()

    parts = {
        "batch": Part(seconds(lambda: step.batches(1))),
        "propagation": Part(2 * seconds(propagate), bytes=step.propagation_bytes),
        "risk": Part(seconds(risk), operations=3 * step.product),
        "Adam": Part(seconds(step.optimiser.step), bytes=step.adam_bytes),
        "clipping": Part(seconds(lambda: model.clip_(4.5)), bytes=step.clip_bytes),
    }
    whole = seconds(lambda: step.take(1))
    parts["gathers, L2"] = Part(max(0.0, whole - sum(part.seconds for part in parts.values())))
    return parts


def whole_step(step: Step, device: str) -> float:
    """Seconds a step as training sees it."""
    count = STEPS if device == "cuda" else 1

    def some_steps() -> None:
        for iteration in range(count):
            step.take(iteration)

    return median_seconds(some_steps, REPEATS, device) / count


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=sorted(PUBLIC_SETS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    started = time.perf_counter()
    rates = Rates.measured(given.device)
    step = Step(given.dataset, given.data_dir, given.device)
    parts = gpu_parts(step) if given.device == "cuda" else cpu_parts(step)
    whole = whole_step(step, given.device)

    table = Table(title=f"A WD-LGCN step on {given.dataset}, {given.device}")
    for heading in ("part", "milliseconds", "floor", "times the floor"):
        table.add_column(heading, justify="left" if heading == "part" else "right")
    for name, part in parts.items():
        floor = part.floor(rates)
        times = f"{part.seconds / floor:.1f}" if floor else ""
        table.add_row(
            name, f"{1000 * part.seconds:.3f}", f"{1000 * floor:.3f}" if floor else "", times
        )
    table.add_row("whole step", f"{1000 * whole:.3f}", "", "")
    console = Console()
    console.print(table)
    console.print(
        f"matrix rate {rates.operations / 1e12:.3g} TFLOP/s, copy rate {rates.bytes / 1e9:.3g} GB/s"
        f" ({time.perf_counter() - started:.0f} s in all)"
    )
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "dataset": given.dataset,
            "rates": asdict(rates),
            "parts": {
                name: asdict(part) | {"floor": part.floor(rates)} for name, part in parts.items()
            },
            "whole_step": whole,
            "environment": environment(given.device),
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
