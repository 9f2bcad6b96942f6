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
from densirank.hardware import Hardware
from densirank.models import MODELS
from densirank.risks import risk_for
from densirank.settings import Candidates, Optimiser
from densirank.training.batches import BatchSampler
from densirank.training.steps import optimiser_for, step
from powerlaw import Size
from step_costs import CPU, GPU, Case, Layout, costs, held, operations

MIB = 2**20
RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
SIZE = Size(users=3000, items=2000, interactions=30_000)


def counted_step(
    method: str, candidates: Candidates, optimiser: Optimiser = "whitened", dim: int = 16
) -> tuple[StepCounter, Case]:
    """One real step, counted, and the case that it is of."""
    data, hardware = powerlaw.interactions(SIZE), Hardware(torch.device("cpu"))
    chosen = METHODS[method]
    assert chosen.risk is not None
    settings = chosen.settings(
        candidates=candidates, dim=dim, users_per_batch=50, optimiser=optimiser
    )
    model = MODELS[chosen.model](data, settings, torch.Generator().manual_seed(0))
    batches = BatchSampler(data, settings.users_per_batch, candidates, 0, hardware.device)
    descent = optimiser_for(model, settings, hardware)
    risk = risk_for(hardware, chosen.risk, settings)
    step(model, risk, batches(0), descent, settings)
    descent.zero_grad()
    batch = batches(1)
    moments = [value for state in descent.state.values() for value in state.values()]
    with StepCounter([*model.parameters(), *moments]) as counter:
        step(model, risk, batch, descent, settings)
    n_pairs = len(batch.positives.columns)
    case = Case(
        SIZE.users,
        SIZE.items,
        SIZE.interactions,
        len(batch.users),
        len(batch.candidates),
        dim,
        settings.layers if method == "wd-lgcn" else 0,
        {"whitened": 1, "adam": 2}[optimiser],
    )
    assert n_pairs > 0
    return counter, replace(case, batch_pairs=n_pairs)


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn"])
@pytest.mark.parametrize("candidates", [300, "batch", "all"])
def test_a_step_makes_exactly_the_operations_of_the_formula(
    method: str, candidates: Candidates
) -> None:
    counter, case = counted_step(method, candidates)
    assert counter.operations == sum(operations(case, Layout(), CPU).values())


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn"])
@pytest.mark.parametrize("optimiser", ["whitened", "adam"])
def test_a_step_holds_the_tables_of_the_formula(method: str, optimiser: Optimiser) -> None:
    counter, case = counted_step(method, 100, optimiser, dim=64)
    parts = held(case, Layout(), CPU)
    expected = parts["tables"] + parts.get("propagation", 0)
    assert expected < counter.peak_bytes < expected + parts["batch"]


@pytest.mark.parametrize(("method", "layers"), [("wd-mf", 0), ("wd-lgcn", 3)])
def test_the_memory_of_the_largest_measured_fit_is_known_to_a_tenth(
    method: str, layers: int
) -> None:
    record = json.loads((RECORDS / "scale-large.json").read_text(encoding="utf-8"))["large"]
    case = Case(**record["read"], batch_users=2500, candidates=20_000, layers=layers)
    stages = {stage["name"]: stage for stage in record["stages"]}
    interpreter = stages["read it"]["before_mib"]
    predicted = interpreter + sum(held(case, Layout(), CPU).values()) / MIB
    assert predicted == pytest.approx(stages[f"fit {method}"]["peak_mib"], rel=0.1)
