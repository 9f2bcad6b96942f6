"""The formulas of docs/scale.md against what real steps do, counted at torch's dispatcher."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import powerlaw
from counting import StepCounter
from densirank import METHODS
from densirank.device import Hardware
from densirank.models import MODELS
from densirank.risks import RISKS
from densirank.settings import Candidates, Optimiser
from densirank.training.batches import BatchSampler
from densirank.training.optim import optimiser_for
from densirank.training.step import step
from powerlaw import Size
from step_costs import CPU, HALF, MOMENTS, Case, Kernels, Layout, costs, held, operations

MIB = 2**20
RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
SIZE = Size(users=3000, items=2000, interactions=30_000)


def counted_step(
    method: str,
    candidates: Candidates,
    optimiser: Optimiser = "whitened",
    dim: int = 16,
    size: Size = SIZE,
) -> tuple[StepCounter, Case]:
    """One real step, counted, and the case that it is of."""
    data, hardware = powerlaw.interactions(size), Hardware(torch.device("cpu"))
    chosen = METHODS[method]
    assert chosen.risk is not None
    settings = chosen.settings(
        candidates=candidates, dim=dim, users_per_batch=50, optimiser=optimiser
    )
    model = MODELS[chosen.model].of(data, settings, torch.Generator().manual_seed(0))
    batches = BatchSampler(data, settings.users_per_batch, candidates, 0, hardware.device)
    descent = optimiser_for(model, settings, hardware)
    risk = RISKS[chosen.risk].on(hardware, settings)
    step(model, risk, batches(0), descent, settings)
    descent.zero_grad()
    batch = batches(1)
    moments = [value for state in descent.state.values() for value in state.values()]
    with StepCounter([*model.parameters(), *moments]) as counter:
        step(model, risk, batch, descent, settings)
    case = Case(
        size.users,
        size.items,
        size.interactions,
        len(batch.users),
        len(batch.candidates),
        dim,
        settings.layers if method == "wd-lgcn" else 0,
        MOMENTS[optimiser],
    )
    return counter, replace(case, batch_pairs=len(batch.positives.columns))


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn"])
@pytest.mark.parametrize("candidates", [300, "batch", "all"])
def test_a_step_makes_exactly_the_operations_of_the_formula(
    method: str, candidates: Candidates
) -> None:
    counter, case = counted_step(method, candidates)
    assert counter.operations == sum(operations(case, Layout(), CPU).values())


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn"])
@pytest.mark.parametrize("optimiser", ["whitened", "adam"])
@pytest.mark.parametrize("size", [SIZE, Size(users=500, items=10_000, interactions=5_000)])
def test_a_step_holds_the_tables_of_the_formula(
    method: str, optimiser: Optimiser, size: Size
) -> None:
    counter, case = counted_step(method, 100, optimiser, dim=64, size=size)
    parts = held(case, Layout(), CPU)
    expected = parts["tables"] + parts.get("propagation", 0)
    assert expected < counter.peak_bytes < expected + parts["batch"]


@pytest.mark.parametrize(("method", "layers"), [("wd-mf", 0), ("wd-lgcn", 3)])
def test_the_memory_of_the_largest_measured_fit_is_known_to_a_tenth(
    method: str, layers: int
) -> None:
    record = json.loads((RECORDS / "scale-large.json").read_text(encoding="utf-8"))["large"]
    case = Case(
        **record["read"],
        batch_users=2500,
        candidates=20_000,
        layers=layers,
        moments=MOMENTS[METHODS[method].settings().optimiser],
    )
    stages = {stage["name"]: stage for stage in record["stages"]}
    interpreter = stages["read it"]["before_mib"]
    predicted = interpreter + sum(held(case, Layout(), CPU).values()) / MIB
    assert predicted == pytest.approx(stages[f"fit {method}"]["peak_mib"], rel=0.1)


def test_the_memory_of_all_users_on_a_gpu_is_known_to_a_tenth() -> None:
    figures = json.loads((RECORDS / "step-cuda.json").read_text(encoding="utf-8"))["figures"]
    names = ("half, WD, all items", "half, WD, all items, all users")
    few, everybody = (figures[name]["extra_mib"] for name in names)
    some = Case(29_858, 40_981, 810_128, 2_500, 40_981, layers=3, moments=2)
    batches = [
        held(case, Layout(), HALF)["batch"] for case in (some, replace(some, batch_users=29_858))
    ]
    assert (batches[1] - batches[0]) / MIB == pytest.approx(everybody - few, rel=0.1)


LARGE = Case(10**7, 10**6, 10**9, 10**5, 10**4, layers=3, batch_pairs=10**7)
KINDS = [LARGE, replace(LARGE, layers=0), replace(LARGE, candidates=LARGE.items)]


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("kernels", [CPU, HALF])
def test_one_process_sends_nothing(case: Case, kernels: Kernels) -> None:
    cost = costs(case, Layout(ranks=1), kernels)
    assert sum(cost.sent.values()) + sum(cost.sent_near.values()) + cost.collectives == 0


@pytest.mark.parametrize("case", KINDS)
@pytest.mark.parametrize("layout", [Layout(8), Layout(8, columns=4), Layout(8, users_travel=True)])
@pytest.mark.parametrize("more", ["users", "items", "interactions", "dim"])
def test_whatever_there_is_more_of_costs_no_less(case: Case, layout: Layout, more: str) -> None:
    larger = replace(case, **{more: 2 * getattr(case, more)})
    for amount in (amounts(case, layout), amounts(larger, layout)):
        assert all(value >= 0 for value in amount)
    assert all(b >= a for a, b in zip(amounts(case, layout), amounts(larger, layout), strict=True))
    assert amounts(case, layout) != amounts(larger, layout)


@pytest.mark.parametrize("case", KINDS)
def test_more_ranks_hold_and_compute_less_each(case: Case) -> None:
    few, many = (costs(case, Layout(ranks), HALF) for ranks in (8, 64))
    assert sum(many.held.values()) < sum(few.held.values())
    assert sum(many.operations.values()) < sum(few.operations.values())
    assert sum(many.touched.values()) < sum(few.touched.values())


def amounts(case: Case, layout: Layout) -> list[float]:
    cost = costs(case, layout, HALF)
    return [sum(part.values()) for part in (cost.held, cost.operations, cost.touched, cost.sent)]
