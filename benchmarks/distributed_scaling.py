"""Training by 1, 2 and 4 processes, compared with the predictions of step_costs.py.

    python benchmarks/distributed_scaling.py
    python benchmarks/distributed_scaling.py --users 20000 --items 5000 --interactions 400000
    python benchmarks/distributed_scaling.py --methods wd-mf --only exact --processes 1 2

Every run is started by torchrun, with one thread per process. With ``--rounds``, the numbers of
processes alternate and medians over the rounds are shown, because the speed of a machine drifts. If
there is a core for each process, the same number of *strangers* is run as well: independent
processes that each train on all data. Cores share memory and caches, so strangers show the largest
speedup that the machine allows.

The expected time of a step of several processes is computed from the times of its parts in a single
process and the measured speed of sending. Bytes sent are counted from the tensors of collectives.
CPU seconds are measured per process and show how the work is divided even if other programs disturb
the wall clock.

Linux only: the kernel's peak memory of a process is read and reset.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.optim.optimizer import register_optimizer_step_post_hook

import powerlaw
from cluster_plan import Machine, seconds
from counting import StepCounter
from densirank import METHODS
from densirank.data.share import Share
from densirank.device import Hardware
from densirank.files import written_atomically
from densirank.fit import part_of
from densirank.parallel.joining import joined
from densirank.risks import RISKS
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler
from densirank.training.loop import train
from densirank.world import World
from measuring import environment, forget_peak, in_own_process, peak_mib
from powerlaw import Size
from scale import Growth, take_steps
from step_costs import CPU, MOMENTS, Case, Layout, held, operations, sent, touched

METHOD_LAYERS = {"wd-mf": 0, "wd-lgcn": 3}
WARM_UP = Size(users=500, items=400, interactions=5_000)
COUNTED_STEPS = 3
LINK_BYTES = 1 << 24
LINK_REPEATS = 7


@dataclass(frozen=True)
class Task:
    """What a run trains."""

    method: str
    size: Size
    candidates: Candidates
    batch_users: int
    steps: int

    def settings(self) -> dict[str, Any]:
        return {
            "candidates": self.candidates,
            "users_per_batch": self.batch_users,
            "iterations": self.steps,
        }

    @property
    def case(self) -> Case:
        n_candidates = self.size.items if self.candidates == "all" else int(self.candidates)
        return Case(
            self.size.users,
            self.size.items,
            self.size.interactions,
            self.batch_users,
            n_candidates,
            layers=METHOD_LAYERS[self.method],
            moments=MOMENTS[METHODS[self.method].settings().optimiser],
        )


@dataclass(frozen=True)
class Seen:
    """What one process saw of a run."""

    step_seconds: float
    cpu_seconds: float  # of the step, in this process
    sent_bytes: float
    collectives: float
    held_bytes: float
    batch_pairs: float
    batch_items: float
    near_items: float
    link_rate: float = 0.0  # bytes per second; 0 with a single process
    link_latency: float = 0.0  # seconds


# --- one of the processes -------------------------------------------------------------------------


def work(task: Task) -> Seen:
    """Train as one of the processes that torchrun started."""
    tiny = replace(task, size=WARM_UP, candidates=WARM_UP.items // 2, steps=3)
    with joined("cpu") as world:
        rate, latency = measured_link(world)
        trained(world, tiny, 0.0)  # loads what is loaded once
        forget_peak()
        seen = trained(world, task, peak_mib("cpu"))
    return replace(seen, link_rate=rate, link_latency=latency)


def trained(world: World, task: Task, before_mib: float) -> Seen:
    """Train by the clock, and then some steps by the counter, which takes its time to count."""
    share = own_share(world, task.size)
    method, hardware = METHODS[task.method], Hardware(torch.device("cpu"))
    assert method.risk is not None
    settings = method.settings(**task.settings())
    batches = BatchSampler.of(share, settings, 0, hardware.device)
    generator = torch.Generator().manual_seed(0)
    assert method.model_type.sharded is not None
    model = method.model_type.sharded(share, settings, generator, batches.size)
    risk = part_of(RISKS[method.risk].on(hardware, settings), batches.size)

    def of_a_step(steps: int, look: Callable[[], tuple[float, ...]]) -> list[float]:
        """By how much what is looked at after every step grows in one, on the median."""
        seen: list[tuple[float, ...]] = []
        hook = register_optimizer_step_post_hook(lambda *_: seen.append(look()))
        train(model, risk, batches, replace(settings, iterations=steps), hardware, world=world)
        hook.remove()
        return [float(grown) for grown in np.median(np.diff(seen, axis=0), axis=0)]

    forget_peak()
    step_seconds, cpu_seconds = of_a_step(
        task.steps, lambda: (time.perf_counter(), time.process_time())
    )
    peak = peak_mib("cpu")
    with StepCounter() as counter:
        sent_bytes, collectives = of_a_step(
            COUNTED_STEPS, lambda: (sum(counter.sent_bytes.values()), counter.collectives)
        )
    drawn = [batches(iteration) for iteration in range(task.steps)]
    return Seen(
        step_seconds,
        cpu_seconds,
        sent_bytes,
        collectives,
        (peak - before_mib) * 2**20,
        mean(len(batch.positives.columns) for batch in drawn),
        mean(len(batch.items) for batch in drawn),
        int(np.count_nonzero(share.own.item_counts)),
    )


def own_share(world: World, size: Size) -> Share:
    """This process's users, without holding memory of other users."""
    share = Share.of(world, powerlaw.interactions(size))
    own = share.own
    return replace(share, own=replace(own, indptr=own.indptr.copy(), items=own.items.copy()))


def measured_link(world: World) -> tuple[float, float]:
    """(bytes a second that a process sends when all of them do, seconds of the shortest word)."""
    if world.size == 1:
        return 0.0, 0.0
    rows = torch.zeros(world.size, LINK_BYTES // 4 // world.size)
    one_each = [1] * world.size

    def median_seconds(say: Callable[[], object]) -> float:
        taken = []
        for _ in range(LINK_REPEATS):
            world.wait()
            started = time.perf_counter()
            say()
            taken.append(time.perf_counter() - started)
        return median(taken)

    latency = median_seconds(lambda: world.any(False))
    long = median_seconds(lambda: world.exchange(rows, one_each, one_each))
    return LINK_BYTES * (world.size - 1) / world.size / max(long - latency, 1e-9), latency


# --- all of them ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A run by a number of processes: measured and expected values."""

    method: str
    candidates: Candidates
    processes: int
    measured: Seen
    expected_seconds: dict[str, float]
    expected_sent: dict[str, float]
    expected_held: dict[str, float]
    processes_a_core: float
    stranger_seconds: float | None  # of a step, beside as many others that do the same

    @property
    def expected_step(self) -> float:
        """Seconds of a step, where processes that share a core take turns."""
        computing = self.expected_computing * max(1.0, self.processes_a_core)
        return computing + self.expected_seconds["sending"]

    @property
    def expected_computing(self) -> float:
        """Seconds that a process computes."""
        return sum(self.expected_seconds.values()) - self.expected_seconds["sending"]


def run(task: Task, processes: int, at_most: float = 3600) -> Seen:
    """Let torchrun start the processes: means over them, and the most that any held."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--local-addr=127.0.0.1"]  # whatever this machine's name resolves to
        command += [f"--nproc-per-node={processes}", __file__, "--folder", folder]
        command += ["--task", json.dumps(asdict(task))]
        subprocess.run(command, check=True, timeout=at_most)
        parts = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).iterdir()]
    assert len(parts) == processes
    means = {key: mean(part[key] for part in parts) for key in parts[0]}
    return Seen(**means | {"held_bytes": max(part["held_bytes"] for part in parts)})


def strangers(task: Task, count: int) -> Seen:
    """Simultaneous independent runs of one process each."""
    with ThreadPoolExecutor(count) as threads:
        return middle(list(threads.map(lambda _: run(task, 1), range(count))))


def middle(seen: list[Seen]) -> Seen:
    """The median of everything over some runs."""
    return Seen(**{key: median(asdict(one)[key] for one in seen) for key in asdict(seen[0])})


def machine_of(task: Task, alone: Growth, link: Seen) -> Machine:
    """The rates at which one process takes its parts of a step, and sends."""
    case = task.case
    work, moved = operations(case, Layout(), CPU), touched(case, Layout(), CPU)
    risk, propagation = alone.parts["risk"], alone.parts["propagation"]
    return Machine(
        memory=math.inf,
        risk=(work["risk"] + work["positives"]) / risk,
        products=math.inf,  # whitening's are part of what the tables take
        edges=moved.get("propagation", 0.0) / propagation if propagation else math.inf,
        tables=moved["tables"] / (alone.seconds - risk - propagation),
        link=link.link_rate or math.inf,
        near=link.link_rate or math.inf,
        latency=link.link_latency,
        draw=0.0,  # part of the rest, likewise
        node=1,
        kernels=CPU,
    )


def compared(
    task: Task,
    alone: Growth,
    measured: Seen,
    processes: int,
    cores: int,
    stranger_seconds: float | None,
) -> Row:
    """A run compared with its expected values."""
    case = replace(
        task.case,
        batch_pairs=measured.batch_pairs * processes,
        batch_items=measured.batch_items,
        near_items=measured.near_items,
    )
    layout = Layout(processes)
    return Row(
        task.method,
        task.candidates,
        processes,
        measured,
        seconds(case, layout, machine_of(task, alone, measured)),
        sent(case, layout),
        held(case, layout, CPU),
        processes / cores,
        stranger_seconds,
    )


def table(rows: list[Row], size: Size) -> Table:
    """Measured | expected, one row a run."""
    shown = Table(title=str(size))
    for heading in ("method", "candidates"):
        shown.add_column(heading)
    for heading in ("processes", "a step, s", "speed-up", "strangers'", "CPU, s"):
        shown.add_column(heading, justify="right")
    for heading in ("sent, MB", "held, MB"):
        shown.add_column(heading, justify="right")
    for row in rows:
        first = next(r for r in rows if (r.method, r.candidates) == (row.method, row.candidates))
        taken, cpu = row.measured.step_seconds, row.measured.cpu_seconds
        faster = first.measured.step_seconds / taken
        should = first.expected_step / row.expected_step
        share = row.expected_computing / first.expected_computing
        most = ""
        if row.stranger_seconds is not None:
            alone = first.measured.step_seconds
            most = f"{row.processes * alone / row.stranger_seconds:.2f}"
        shown.add_row(
            row.method,
            str(row.candidates),
            str(row.processes),
            f"{taken:.2f} | {row.expected_step:.2f}",
            f"{faster:.2f} | {should:.2f}",
            most,
            f"{cpu:.2f} | {first.measured.cpu_seconds * share:.2f}",
            f"{row.measured.sent_bytes / 1e6:.1f} | {sum(row.expected_sent.values()) / 1e6:.1f}",
            f"{row.measured.held_bytes / 1e6:.0f} | {sum(row.expected_held.values()) / 1e6:.0f}",
        )
    shown.caption = "measured | by the formulas; a process, beyond the interpreter's own memory"
    return shown


def main() -> None:
    """Measure, print one table, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--interactions", type=int, default=4_000_000)
    parser.add_argument("--batch-users", type=int, default=5_000)
    parser.add_argument("--candidates", type=int, default=10_000, help="of the sampled risk")
    parser.add_argument("--only", choices=("sampled", "exact"), help="of the two risks")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--methods", nargs="+", choices=METHOD_LAYERS, default=[*METHOD_LAYERS])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task is not None:
        facts = json.loads(given.task)
        task = Task(**facts | {"size": Size(**facts["size"])})
        place = given.folder / f"{os.environ['RANK']}.json"
        place.write_text(json.dumps(asdict(work(task))), encoding="utf-8")
        return

    os.environ["OMP_NUM_THREADS"] = "1"
    size = Size(given.users, given.items, given.interactions)
    if problem := size.problem():
        parser.error(problem)
    cores = len(os.sched_getaffinity(0))
    risks: dict[str, Candidates] = {"sampled": given.candidates, "exact": "all"}
    rows: list[Row] = []
    for method in given.methods:
        for candidates in [risks[given.only]] if given.only else risks.values():
            task = Task(method, size, candidates, given.batch_users, given.steps)
            alone = in_own_process(take_steps, method, size, task.settings(), given.steps - 1)
            together: dict[int, list[Seen]] = {count: [] for count in given.processes}
            apart: dict[int, list[float]] = {
                count: [] for count in given.processes if 1 < count <= cores
            }
            for _ in range(given.rounds):
                for count, runs in together.items():
                    runs.append(run(task, count))
                    if count in apart:
                        apart[count].append(strangers(task, count).step_seconds)
            for count, runs in together.items():
                beside = median(apart[count]) if count in apart else None
                rows.append(compared(task, alone, middle(runs), count, cores, beside))
            Console().print(table(rows, size))
    if given.json is not None:
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "environment": environment("cpu") | {"threads": 1},
            "size": asdict(size),
            "rows": [asdict(row) for row in rows],
        }
        with written_atomically(given.json) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
