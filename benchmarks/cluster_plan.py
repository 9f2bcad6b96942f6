"""GPUs needed for a log and a catalogue, and seconds per epoch, extrapolated by step_costs.py.

    python benchmarks/cluster_plan.py                       # the case of docs/scale.md
    python benchmarks/cluster_plan.py --users 1000000 --items 1000000 --interactions 100000000
    python benchmarks/cluster_plan.py --dim 128 --candidates 1000000 --json plan.json

A time is the sum of its parts, none hidden behind another: what a rank computes, at the rates that
one H200 was measured at (benchmarks/records), and what it sends, at the rates of its links.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from densirank.files import written_atomically
from step_costs import GPU, HALF, Case, Kernels, Layout, costs, drawn, held

RECORDS = Path(__file__).parent / "records"

FULL = 0.9
"""Share of a device's memory that can be filled: the allocator and the runtime need theirs."""

NODE = 8
"""GPUs that NVLink joins."""

MOST = 1 << 16
"""Numbers of GPUs to consider; what does not fit the largest does not fit for other reasons."""


@dataclass(frozen=True)
class Machine:
    """A device and its links: what it holds, and how much it does in a second."""

    memory: float  # bytes
    risk: float  # operations of a risk's products, with all that goes on around them
    products: float  # operations of float32 products
    edges: float  # bytes of a propagation
    tables: float  # bytes of passes over tables
    link: float  # bytes sent to ranks anywhere
    near: float  # bytes sent to ranks of the same node
    latency: float  # seconds of a collective, however short
    draw: float  # seconds to shuffle one number, on the host
    node: int  # devices in a node
    kernels: Kernels


@cache
def h200(kernels: Kernels) -> Machine:
    """An H200 with the rates that one was measured at; links and random reads are assumptions.

    The risk's rate in half precision is what all users of Gowalla take longer than 2,500 of them;
    in single precision it is what is left of a step without the parts that a profile knows. The
    propagation was measured at 3.9 TB/s with vectors that fit a cache: without, half the memory's
    rate is assumed.
    """
    steps, profile = _record("step-cuda.json")["figures"], _record("profile-cuda.json")
    parts = profile["parts"]
    if kernels.bits:
        few, everybody = steps["half, WD, all items"], steps["half, WD, all items, all users"]
        work = 2 * kernels.products * (29_858 - 2_500) * 40_981 * 64
        taken = everybody["seconds"] - few["seconds"]
    else:
        work = parts["risk, user pass"]["operations"]  # three products
        risk = sum(part["seconds"] for name, part in parts.items() if name.startswith("risk"))
        taken = steps["ours, WD"]["seconds"] - (profile["whole_step"] - risk)
    return Machine(
        memory=141e9,
        risk=work / taken,
        products=67e12,
        edges=4.8e12 / 2,
        tables=parts["Adam"]["bytes"] / parts["Adam"]["seconds"],
        link=400e9 / 8,
        near=900e9 / 2,
        latency=50e-6,
        draw=_shuffling_seconds(),
        node=NODE,
        kernels=kernels,
    )


def _shuffling_seconds() -> float:
    """Of one number: what a batch takes longer where the catalogue is ten times as large."""
    small, large = (
        next(
            row["parts"]["batch"]
            for row in _record("scale-growth.json")["growth"]
            if (row["method"], row["candidates"], row["items"]) == ("wd-mf", 5_000, items)
        )
        for items in (100_000, 1_000_000)
    )
    return float(large - small) / 900_000


def _record(name: str) -> Any:
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


def seconds(case: Case, layout: Layout, machine: Machine) -> dict[str, float]:
    """What a step takes, part by part."""
    cost = costs(case, layout, machine.kernels)
    link = machine.near if layout.ranks <= machine.node else machine.link
    return {
        "drawing": drawn(case, layout)[0] * machine.draw,
        "risk": (cost.operations["risk"] + cost.operations["positives"]) / machine.risk,
        "propagation": cost.touched.get("propagation", 0.0) / machine.edges,
        "tables": cost.touched["tables"] / machine.tables
        + cost.operations.get("whitening", 0.0) / machine.products,
        "sending": sum(cost.sent.values()) / link
        + sum(cost.sent_near.values()) / machine.near
        + cost.collectives * machine.latency,
    }


@dataclass(frozen=True)
class Scenario:
    """A way to train: which method, which candidates, how many users a rank, which layout."""

    name: str
    layers: int
    candidates: int
    users_a_rank: int
    layout: Layout
    kernels: Kernels


@dataclass(frozen=True)
class Plan:
    """A scenario on a number of ranks: the memory of each, and the time of a step."""

    name: str
    case: Case
    layout: Layout
    held: dict[str, float]
    seconds: dict[str, float]
    shuffling: float  # seconds an epoch
    fits: bool

    @property
    def held_bytes(self) -> float:
        return sum(self.held.values())

    @property
    def steps(self) -> float:
        """Until every user was there once."""
        return self.case.users / self.case.batch_users

    @property
    def epoch_seconds(self) -> float:
        return self.steps * sum(self.seconds.values()) + self.shuffling


def plan(scenario: Scenario, data: Case, ranks: int) -> Plan:
    """A scenario of these data on a number of ranks."""
    machine = h200(scenario.kernels)
    layout = replace(scenario.layout, ranks=ranks)
    case = replace(
        data,
        layers=scenario.layers,
        candidates=scenario.candidates,
        batch_users=min(data.users, scenario.users_a_rank * ranks),
    )
    return Plan(
        scenario.name,
        case,
        layout,
        held(case, layout, machine.kernels),
        seconds(case, layout, machine),
        drawn(case, layout)[1] * machine.draw,
        fits=sum(held(case, layout, machine.kernels).values()) <= FULL * machine.memory,
    )


def fewest(scenario: Scenario, data: Case) -> Plan | None:
    """The same on the fewest whole nodes whose memory it fits; None where no number helps."""
    plans = (plan(scenario, data, ranks) for ranks in range(NODE, MOST + 1, NODE))
    return next((found for found in plans if found.fits), None)


def scenarios(given: argparse.Namespace) -> list[Scenario]:
    """MF and LightGCN, sampled and exact, as they are built and with what would help them."""
    built, draws = Layout(), Layout(own_draws=True)
    travel = replace(draws, users_travel=True)
    columns = replace(draws, columns=NODE, wire=2)
    both = replace(columns, users_travel=True)
    sampled = (given.candidates, given.sampled_users)
    exact = (given.items, given.exact_users)
    layers = given.layers
    return [
        Scenario("MF, sampled", 0, *sampled, built, GPU),
        Scenario("MF, sampled, own draws", 0, *sampled, draws, GPU),
        Scenario("MF, exact", 0, *exact, built, GPU),
        Scenario("MF, exact, users travel", 0, *exact, travel, GPU),
        Scenario("MF, exact, users travel, half", 0, *exact, travel, HALF),
        Scenario("LightGCN, sampled", layers, *sampled, built, GPU),
        Scenario("LightGCN, sampled, columns, half", layers, *sampled, columns, HALF),
        Scenario("LightGCN, sampled, columns, half, one layer", 1, *sampled, columns, HALF),
        Scenario("LightGCN, exact", layers, *exact, built, GPU),
        Scenario("LightGCN, exact, columns, users travel, half", layers, *exact, both, HALF),
    ]


def table(plans: list[Plan], data: Case) -> Table:
    """One row a plan."""
    shown = Table(
        title=f"{data.users:,} users × {data.items:,} items, {data.interactions:,} interactions"
    )
    parts = list(plans[0].seconds)
    for heading in ("way", "GPUs", "GB each", "most of it", *parts, "a step", "steps", "epoch"):
        shown.add_column(heading, justify="left" if heading in ("way", "most of it") else "right")
    for each in plans:
        largest = max(each.held, key=lambda part: each.held[part])
        memory = (f"{each.held_bytes / 1e9:,.0f}", f"{largest} {each.held[largest] / 1e9:,.0f}")
        if not each.fits:
            shown.add_row(each.name, "none", *memory)
            continue
        shown.add_row(
            each.name,
            f"{each.layout.ranks:,}",
            *memory,
            *(f"{each.seconds[part]:.3f}" for part in parts),
            f"{sum(each.seconds.values()):.2f}",
            f"{each.steps:,.0f}",
            f"{each.epoch_seconds / 3600:,.2f} h",
        )
    shown.caption = "seconds of a step by part; none: however many there are, each holds too much"
    return shown


def main() -> None:
    """Plan, print one table, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=10**9)
    parser.add_argument("--items", type=int, default=10**8)
    parser.add_argument("--interactions", type=int, default=10**11)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--candidates", type=int, default=100_000, help="of a sampled risk")
    parser.add_argument("--sampled-users", type=int, default=8192, help="of a batch, each GPU")
    parser.add_argument("--exact-users", type=int, default=1024, help="the same, exact risk")
    parser.add_argument("--times", type=int, nargs="+", default=[1, 4], help="the fewest GPUs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    data = Case(given.users, given.items, given.interactions, 1, 1, given.dim)
    plans = []
    for scenario in scenarios(given):
        least = fewest(scenario, data)
        if least is None:
            plans.append(plan(scenario, data, MOST))
            continue
        plans += [plan(scenario, data, n * least.layout.ranks) for n in given.times]
    Console().print(table(plans, data))
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "machines": {"single": asdict(h200(GPU)), "half": asdict(h200(HALF))},
            "plans": [
                asdict(each) | {"steps": each.steps, "epoch_seconds": each.epoch_seconds}
                for each in plans
            ],
        }
        with written_atomically(given.json) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
