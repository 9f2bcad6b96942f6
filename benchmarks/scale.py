"""Memory grows with interactions and vectors, and with nothing else.

    python benchmarks/scale.py                       # a million users and items, 100 million pairs
    python benchmarks/scale.py --users 20000 --items 20000 --interactions 1000000 --only large
    python benchmarks/scale.py --only growth --json growth.json

The large case goes the whole way: a power-law log is written to Parquet, read, made into a graph,
trained on by the ordinary Ranker, saved, loaded and recommended from. Each stage runs in a separate
process, which holds only what the stage needs, to measure its peak memory. The growth table shows
the parts of a training step for growing catalogues with a fixed number of interactions.

Linux only: the kernel's peak memory of a process is read and reset.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.optim.optimizer import register_optimizer_step_post_hook

import densirank
import powerlaw
from densirank import METHODS, Interactions, Ranker
from densirank.data.vocabulary import Vocabulary
from densirank.device import Hardware
from densirank.linalg.propagation import Propagation
from densirank.models import MODELS
from densirank.risks import RISKS
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler
from densirank.training.optim import optimiser_for
from densirank.training.step import steps_on
from measuring import environment, forget_peak, in_own_process, peak_mib
from powerlaw import Size

TRAINED = ("wd-mf", "wd-lgcn")
K = 10
GROWTH_USERS = 100_000
GROWTH_ITEMS_A_USER = 20
GROWTH_CANDIDATES: tuple[Candidates, ...] = ("batch", 5_000, "all")
PARTS = ("batch", "propagation", "risk", "optimiser and clipping")

P = ParamSpec("P")
T = TypeVar("T")


# --- the large case ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stage:
    """How long a part of the work took, what its process held before, and the most it held."""

    name: str
    seconds: float
    before_mib: float
    peak_mib: float


@dataclass(frozen=True)
class Training(Stage):
    """The stage of a fit: how many steps were made (Ctrl-C ends it early), and their times."""

    steps: int
    step_seconds: list[float]


def watched(name: str, work: Callable[[], T]) -> tuple[T, Stage]:
    """Do some work and say what it took."""
    forget_peak()
    before = peak_mib("cpu")
    started = time.perf_counter()
    result = work()
    return result, Stage(name, time.perf_counter() - started, before, peak_mib("cpu"))


def write_log(path: Path, size: Size) -> Stage:
    """Draw the log into a Parquet file."""
    return watched("write the log to Parquet", lambda: powerlaw.write(path, size))[1]


def read_log(path: Path, kept: Path) -> tuple[dict[str, int], Stage]:
    """Read the log; what was read is kept as it lies in memory, for the stages that follow."""
    data, stage = watched("read it", lambda: densirank.read(path))
    np.savez(
        kept,
        indptr=data.indptr,
        items=data.items,
        user_ids=data.user_ids.ids,
        item_ids=data.item_ids.ids,
    )
    return {"users": data.n_users, "items": data.n_items, "interactions": len(data)}, stage


def kept_log(kept: Path) -> Interactions:
    """What was read, without reading it again."""
    with np.load(kept) as arrays:
        user_ids, item_ids = (
            Vocabulary.from_sorted(arrays[name]) for name in ("user_ids", "item_ids")
        )
        return Interactions(arrays["indptr"], arrays["items"], user_ids, item_ids)


def build_graph(kept: Path) -> Stage:
    """Build the graph LightGCN propagates over."""
    data = kept_log(kept)
    return watched("build the graph", lambda: Propagation(data, layers=3))[1]


def fit_and_save(
    method: str, kept: Path, model: Path, settings: dict[str, Any]
) -> tuple[Training, Stage]:
    """Fit with the ordinary Ranker, telling of every step, and save the model."""
    data = kept_log(kept)
    ranker = Ranker(method, device="cpu", **settings)
    steps = ranker.spec.settings(**settings).iterations
    moments: list[float] = []

    def tell(*_: object) -> None:
        moments.append(time.perf_counter())
        took = f", {moments[-1] - moments[-2]:.2f} s" if len(moments) > 1 else ""
        print(
            f"  {method}: step {len(moments)} of {steps}{took}",
            flush=True,
        )

    hook = register_optimizer_step_post_hook(tell)
    _, fit = watched(f"fit {method}", lambda: ranker.fit(data))
    hook.remove()
    _, save = watched(f"save {method}", lambda: ranker.save(model))
    return Training(**asdict(fit), steps=len(moments), step_seconds=np.diff(moments).tolist()), save


def load_and_recommend(method: str, model: Path, n_users: int) -> tuple[Stage, Stage]:
    """Load the model and recommend to some users."""
    ranker, load = watched(f"load {method}", lambda: densirank.load(model, device="cpu"))
    ids = ranker.interactions_.user_ids.ids
    users = np.random.default_rng(0).choice(ids, min(n_users, len(ids)), replace=False)
    lists, recommend = watched(
        f"top {K} of {method} for {len(users):,} users", lambda: ranker.recommend(users, k=K)
    )
    assert len(lists) == K * len(users)
    return load, recommend


def large_case(size: Size, folder: Path, settings: dict[str, Any], n_users: int) -> dict[str, Any]:
    """Every stage one after the other, each in a process of its own."""
    name = f"powerlaw-{size.users}-{size.items}-{size.interactions}"
    log, kept = folder / f"{name}.parquet", folder / f"{name}.npz"
    stages: list[Stage] = []
    if not log.exists():
        stages.append(tell_stage(in_own_process(write_log, log, size)))
    seen, read = in_own_process(read_log, log, kept)
    stages.append(tell_stage(read))
    stages.append(tell_stage(in_own_process(build_graph, kept)))
    for method in TRAINED:
        model = folder / f"{name}-{method}"
        stages += map(tell_stage, in_own_process(fit_and_save, method, kept, model, settings))
        stages += map(tell_stage, in_own_process(load_and_recommend, method, model, n_users))
    vectors = size_of_vectors(seen["users"] + seen["items"], METHODS[TRAINED[0]].settings().dim)
    return {
        "read": seen,
        "parquet_mib": log.stat().st_size / 2**20,
        "pairs_mib": 4 * seen["interactions"] / 2**20,
        "vectors_mib": vectors,
        "users_times_items_mib": 4 * seen["users"] * seen["items"] / 2**20,
        "settings": settings,
        "stages": [asdict(stage) for stage in stages],
    }


def tell_stage(stage: Stage) -> Stage:
    """Say that a stage is done: the whole takes long."""
    print(f"{stage.name}: {stage.seconds:.1f} s, at most {stage.peak_mib:,.0f} MiB", flush=True)
    return stage


def size_of_vectors(count: int, dim: int) -> float:
    """MiB of vectors in single precision."""
    return 4 * count * dim / 2**20


def large_table(size: Size, figures: dict[str, Any]) -> Table:
    """What every stage took."""
    table = Table(title=str(size))
    table.add_column("stage")
    for heading in ("seconds", "steps", "a step", "MiB before", "MiB at most"):
        table.add_column(heading, justify="right")
    for stage in figures["stages"]:
        each = stage.get("step_seconds")
        table.add_row(
            stage["name"],
            f"{stage['seconds']:,.1f}",
            str(stage.get("steps", "")),
            f"{median(each):.2f}" if each else "",
            f"{stage['before_mib']:,.0f}",
            f"{stage['peak_mib']:,.0f}",
        )
    table.caption = (
        f"the pairs take {figures['pairs_mib']:,.0f} MiB, the vectors {figures['vectors_mib']:,.0f}"
        f"; a users × items matrix would take {figures['users_times_items_mib']:,.0f}"
    )
    return table


# --- growth with the catalogue -------------------------------------------------------------------


class Stopwatch:
    """Adds up the seconds spent in parts of a step, by wrapping the functions that do them."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)

    def timed(self, part: str, function: Callable[P, T]) -> Callable[P, T]:
        """The function, with its time counted to this part."""

        def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
            started = time.perf_counter()
            result = function(*args, **kwargs)
            self.seconds[part] += time.perf_counter() - started
            return result

        return wrapped

    def watch(self, part: str, owner: object, name: str) -> None:
        """Time a function where it lives."""
        setattr(owner, name, self.timed(part, getattr(owner, name)))

    def taken(self) -> dict[str, float]:
        """The seconds so far, which start again at zero."""
        taken, self.seconds = self.seconds, dict.fromkeys(PARTS, 0.0)
        return taken


@dataclass(frozen=True)
class Growth:
    """A training step at one size of the catalogue."""

    method: str
    items: int
    candidates: Candidates
    vectors_mib: float
    seconds: float
    parts: dict[str, float]
    extra_mib: float
    """Beyond the interactions, the graph, the vectors, their gradients and moments."""


def take_steps(method: str, size: Size, given: dict[str, Any], repeats: int) -> Growth:
    """Take a step apart, several times, in this process."""
    data, hardware = powerlaw.interactions(size), Hardware(torch.device("cpu"))
    chosen = METHODS[method]
    assert chosen.risk is not None
    settings = chosen.settings(**given)
    model = MODELS[chosen.model].of(data, settings, torch.Generator().manual_seed(0))
    batches = BatchSampler(data, settings.users_per_batch, settings.candidates, 0, hardware.device)
    optimiser = optimiser_for(model, settings, hardware)

    watch = Stopwatch()
    watch.watch("batch", BatchSampler, "__call__")
    watch.watch("propagation", Propagation, "__call__")
    watch.watch("optimiser and clipping", optimiser, "step")
    watch.watch("optimiser and clipping", model, "clip_")
    risk = watch.timed("risk", RISKS[chosen.risk].on(hardware, settings))
    take_step = steps_on(hardware, model, risk, batches, optimiser, settings)
    take_step(0)  # leaves gradients and moments: from here on they are there already
    watch.taken()
    taken = []
    forget_peak()
    before = peak_mib("cpu")
    for iteration in range(1, repeats + 1):
        started = time.perf_counter()
        take_step(iteration)
        taken.append({"whole": time.perf_counter() - started, **watch.taken()})
    medians = {part: median(one[part] for one in taken) for part in ("whole", *PARTS)}
    return Growth(
        method,
        size.items,
        settings.candidates,
        size_of_vectors(size.users + size.items, settings.dim),
        medians.pop("whole"),
        medians,
        peak_mib("cpu") - before,
    )


def growth(catalogues: Iterable[int], repeats: int, longest: float) -> list[dict[str, Any]]:
    """Steps with ever larger catalogues; one that would take too long is left out and says so."""
    rows: list[dict[str, Any]] = []
    for method in TRAINED:
        for candidates in GROWTH_CANDIDATES:
            expected, last_items = 0.0, 1
            for items in sorted(catalogues):
                expected *= items / last_items
                case = {"method": method, "items": items, "candidates": candidates}
                if candidates == "all" and expected > longest:
                    rows.append({**case, "left_out": f"it would take about {expected:.0f} s"})
                    continue
                size = Size(GROWTH_USERS, items, GROWTH_USERS * GROWTH_ITEMS_A_USER)
                settings: dict[str, Any] = {"candidates": candidates}
                result = in_own_process(take_steps, method, size, settings, repeats)
                print(f"{case}: {result.seconds:.2f} s a step", flush=True)
                rows.append(asdict(result))
                expected, last_items = result.seconds, items
    return rows


def growth_table(rows: list[dict[str, Any]]) -> Table:
    """Every step with its parts."""
    pairs = GROWTH_USERS * GROWTH_ITEMS_A_USER
    table = Table(title=f"A step with {GROWTH_USERS:,} users, {pairs:,} interactions")
    headings = ("a step", *PARTS, "the rest", "extra MiB", "vectors MiB")
    for heading in ("method", "candidates", "items", *headings):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    reasons = ""
    for row in rows:
        case = (row["method"], str(row["candidates"]), f"{row['items']:,}")
        if "left_out" in row:
            table.add_row(*case, "left out")
            reasons += f"\nleft out, {' '.join(case)}: {row['left_out']}"
            continue
        rest = row["seconds"] - sum(row["parts"].values())
        times = (row["seconds"], *row["parts"].values(), rest)
        memory = (row["extra_mib"], row["vectors_mib"])
        table.add_row(*case, *(f"{t:.3f}" for t in times), *(f"{m:,.0f}" for m in memory))
    table.caption = f"seconds; the rest is taking vectors out and adding gradients up{reasons}"
    return table


def main() -> None:
    """Measure both, print a table each, and write one record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--interactions", type=int, default=100_000_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--recommend", type=int, default=10_000, help="users to recommend to")
    parser.add_argument("--catalogues", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5, help="steps of the growth table")
    parser.add_argument("--longest", type=float, default=60, help="seconds of a step at most")
    parser.add_argument("--only", choices=("growth", "large"))
    parser.add_argument("--folder", type=Path, help="where the log is kept (else: nowhere)")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    size = Size(given.users, given.items, given.interactions)
    for each in (
        size,
        Size(GROWTH_USERS, min(given.catalogues), GROWTH_USERS * GROWTH_ITEMS_A_USER),
    ):
        if problem := each.problem():
            parser.error(problem)

    command = shlex.join(["python", *sys.argv])
    record: dict[str, Any] = {"command": command, "environment": environment("cpu")}
    console = Console()
    if given.only != "large":
        record["growth"] = growth(given.catalogues, given.repeats, given.longest)
        console.print(growth_table(record["growth"]))
        write_record(given.json, record)
    if given.only != "growth":
        settings: dict[str, Any] = {"iterations": given.steps, "candidates": given.candidates}
        with folder_or_temporary(given.folder) as folder:
            record["large"] = large_case(size, Path(folder), settings, given.recommend)
        console.print(large_table(size, record["large"]))
        write_record(given.json, record)


def write_record(path: Path | None, record: dict[str, Any]) -> None:
    """Write what there is so far, if it is wanted."""
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def folder_or_temporary(folder: Path | None) -> AbstractContextManager[str | Path]:
    """The requested folder, created if necessary, or a temporary one."""
    if folder is None:
        return TemporaryDirectory()
    folder.mkdir(parents=True, exist_ok=True)
    return nullcontext(folder)


if __name__ == "__main__":
    main()
