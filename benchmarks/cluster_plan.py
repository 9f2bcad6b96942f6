"""How many GPUs a log and a catalogue take, and how long an epoch: step_costs.py, carried far.

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
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from step_costs import GPU, Case, Costs, Kernels, Layout, costs

RECORDS = Path(__file__).parent / "records"

FULL = 0.9
"""Share of a device's memory that can be filled: the allocator and the runtime need theirs."""

MOST = 1 << 16
"""GPUs that are looked at; what does not fit so many does not fit for another reason."""


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
    node: int  # devices in a node
    kernels: Kernels


def h200() -> Machine:
    """The rates that one H200 was measured at; its links and its random reads are assumptions.

    The risk's rate is what all users of Gowalla take longer than 2,500 of them. The propagation was
    measured at 3.9 TB/s with vectors that fit a cache: half the memory's rate is assumed without.
    """
    steps, parts = _record("step-cuda.json")["figures"], _record("profile-cuda.json")["parts"]
    few, all_users = steps["half, WD, all items"], steps["half, WD, all items, all users"]
    more = 2 * GPU.products * (29_858 - 2_500) * 40_981 * 64
    return Machine(
        memory=141e9,
        risk=more / (all_users["seconds"] - few["seconds"]),
        products=67e12,
        edges=4.8e12 / 2,
        tables=parts["Adam"]["bytes"] / parts["Adam"]["seconds"],
        link=400e9 / 8,
        near=900e9 / 2,
        latency=50e-6,
        node=8,
        kernels=GPU,
    )


def _record(name: str) -> Any:
    return json.loads((RECORDS / name).read_text(encoding="utf-8"))


def seconds(cost: Costs, machine: Machine, ranks: int) -> dict[str, float]:
    """What a step takes, part by part."""
    link = machine.near if ranks <= machine.node else machine.link
    return {
        "risk": (cost.operations["risk"] + cost.operations["positives"]) / machine.risk,
        "propagation": cost.touched.get("propagation", 0.0) / machine.edges,
        "tables": cost.touched["tables"] / machine.tables
        + cost.operations["whitening"] / machine.products,
        "sending": sum(cost.sent.values()) / link
        + sum(cost.sent_near.values()) / machine.near
        + cost.collectives * machine.latency,
    }


@dataclass(frozen=True)
class Plan:
    """One way to train a case: on so many GPUs, so much on each, so long a step."""

    name: str
    case: Case
    layout: Layout
    held: dict[str, float]
    seconds: dict[str, float]

    @property
    def held_bytes(self) -> float:
        return sum(self.held.values())

    @property
    def step_seconds(self) -> float:
        return sum(self.seconds.values())

    @property
    def steps(self) -> float:
        """Steps until every user was there once."""
        return self.case.users / self.case.batch_users

    @property
    def epoch_seconds(self) -> float:
        return self.steps * self.step_seconds


def plan(
    name: str, case: Case, users_a_rank: int, layout: Layout, machine: Machine, ranks: int
) -> Plan:
    """A case on so many ranks, each with so many users of every batch."""
    batch_users = min(case.users, users_a_rank * ranks)
    case, layout = replace(case, batch_users=batch_users), replace(layout, ranks=ranks)
    cost = costs(case, layout, machine.kernels)
    return Plan(name, case, layout, cost.held, seconds(cost, machine, ranks))


def fewest(
    name: str, case: Case, users_a_rank: int, layout: Layout, machine: Machine
) -> Plan | None:
    """The same on the fewest whole nodes whose memory it fits; None where no number helps."""
    ranks = machine.node
    while ranks <= MOST:
        candidate = plan(name, case, users_a_rank, layout, machine, ranks)
        if candidate.held_bytes <= FULL * machine.memory:
            return candidate
        ranks += machine.node
    return None


@dataclass(frozen=True)
class Scenario:
    """A method and what a rank takes of it."""

    name: str
    layers: int
    exact: bool
    users_a_rank: int
    layout: Layout


def scenarios(layers: int, sampled_users: int, exact_users: int) -> list[Scenario]:
    """MF and LightGCN, sampled and exact, as it is built and with what would help."""
    as_built = Layout()
    sharded = Layout(items_sharded=True)
    columns = Layout(items_sharded=True, columns=8)
    found = []
    for name, layout in (("as built", as_built), ("items sharded", sharded)):
        found.append(Scenario(f"MF, {name}", 0, False, sampled_users, layout))
        found.append(Scenario(f"MF, {name}", 0, True, exact_users, layout))
    for name, layout in (
        ("as built", as_built), ("items sharded", sharded), ("columns", columns)
    ):
        found.append(Scenario(f"LightGCN, {name}", layers, False, sampled_users, layout))
        found.append(Scenario(f"LightGCN, {name}", layers, True, exact_users, layout))
    return found
for s in scenarios(3, 8192, 1024):
    case=Case(10**9,10**8,10**11,1,10**8 if s.exact else 10**5,64,s.layers)
    m=h200()
    p=fewest(s.name,case,s.users_a_rank,s.layout,m)
    if p is None: 
        p=plan(s.name,case,s.users_a_rank,s.layout,m,MOST); print(s.name,s.exact,'none',{k:round(v/1e9,1) for k,v in p.held.items()}); continue
    for n in (p.layout.ranks, 4*p.layout.ranks):
        p=plan(s.name,case,s.users_a_rank,s.layout,m,n)
        print(s.name,s.exact,p.layout.ranks,{k:round(v/1e9,1) for k,v in p.held.items()},{k:round(v,3) for k,v in p.seconds.items()},p.step_seconds,p.steps,p.epoch_seconds/3600)
