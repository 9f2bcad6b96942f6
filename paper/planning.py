"""The records that each table and figure needs, which are missing, and the order to make them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from densirank.errors import InputError
from paper.ablation import pieces_of
from paper.grids import GRIDS, Grid
from paper.records import (
    AblationRecord,
    CurveRecord,
    Records,
    RunRecord,
    SearchRecord,
    SensitivityRecord,
)
from paper.rows import DATASETS, TABLE_1, TABLE_2, TABLES

Kind = Literal["choice", "run", "curve", "sensitivity", "ablation"]
KINDS: tuple[Kind, ...] = ("choice", "run", "curve", "sensitivity", "ablation")

EFFICIENCY = ("wd-lgcn", "pde-lgcn", "dregn-cf", "lightgcn-ans", "lightgcn-ans-nc")
SENSITIVE = ("pde-lgcn", "wd-lgcn")
ABLATED = "densirank"
PRODUCTS: Mapping[str, tuple[Kind, tuple[str, ...]]] = {
    **{name: ("run", table.methods) for name, table in TABLES.items()},
    "significance": ("run", (*TABLE_1.methods, *TABLE_2.methods)),
    "figure-efficiency": ("curve", EFFICIENCY),
    "figure-sensitivity": ("sensitivity", SENSITIVE),
    "ablation": ("ablation", (ABLATED,)),
    "adversarial": ("run", ()),
}
"""Every table and figure with the records it needs, in addition to the chosen settings."""


@dataclass(frozen=True)
class Job:
    """One record to make."""

    kind: Kind
    dataset: str
    method: str
    seed: int = 0

    def __str__(self) -> str:
        seed = f", seed {self.seed}" if self.kind == "run" else ""
        return f"{self.dataset} {self.method}: {self.kind}{seed}"

    def done(self, records: Records) -> bool:
        """Whether its record is there, and finished."""
        match self.kind:
            case "choice" | "sensitivity":
                kind = SearchRecord if self.kind == "choice" else SensitivityRecord
                found = records.find(kind, self.dataset, self.method)
                return found is not None and found.chosen is not None
            case "ablation":
                return self._ablated(records)
            case "curve":
                name = f"{self.method}-seed{self.seed}"
                return records.find(CurveRecord, self.dataset, name) is not None
            case "run":
                name = f"{self.method}-seed{self.seed}"
                if records.find(RunRecord, self.dataset, name) is None:
                    return False
                return self.seed > 0 or records.per_user_path(self.dataset, self.method).exists()

    def _ablated(self, records: Records) -> bool:
        """Whether every piece that the chosen settings have was taken away once."""
        choice = records.find(SearchRecord, self.dataset, self.method)
        if choice is None or choice.chosen is None:
            return False
        names = (AblationRecord.name_of(self.method, piece) for piece in pieces_of(choice))
        return all(records.find(AblationRecord, self.dataset, name) for name in names)


def grid_of(method: str, quick: bool) -> Grid:
    """How a method is searched."""
    return GRIDS[method].quick() if quick else GRIDS[method]


def jobs_for(
    products: Sequence[str],
    datasets: Sequence[str],
    methods: Sequence[str] | None = None,
    quick: bool = False,
) -> list[Job]:
    """All records that the products need, of these or all methods, in execution order."""
    jobs: set[Job] = set()
    for product in products:
        kind, of_product = PRODUCTS[product]
        for method in of_product:
            if methods is not None and method not in methods:
                continue
            seeds = grid_of(method, quick).seeds
            for dataset in datasets:
                jobs.add(Job("choice", dataset, method))
                jobs |= {
                    Job(kind, dataset, method, seed)
                    for seed in (seeds if product in TABLES else seeds[:1])
                }
    if not jobs and methods is not None:
        asked = ", ".join(methods)
        raise InputError(f"nothing in {', '.join(products)} is made with the methods {asked}")
    return in_order(jobs)


def in_order(jobs: Iterable[Job]) -> list[Job]:
    """Runs before figures, cheap methods before dear ones, a choice before what rests on it."""
    cost = {method: place for place, method in enumerate(GRIDS)}
    place = {dataset: place for place, dataset in enumerate(DATASETS)}

    def rank(job: Job) -> tuple[int, int, int, str, int, int]:
        kind = KINDS.index(job.kind)
        where = place.get(job.dataset, len(place))
        return (max(kind, 1), cost[job.method], where, job.dataset, kind, job.seed)

    return sorted(jobs, key=rank)


def missing(jobs: Iterable[Job], records: Records) -> list[Job]:
    """The jobs whose records are not there yet."""
    return [job for job in jobs if not job.done(records)]


def commands_for(product: str, jobs: Iterable[Job], options: Sequence[str]) -> list[str]:
    """The command lines that make the jobs: one for each data set."""
    methods: dict[str, dict[str, None]] = {}  # in order, each once
    for job in jobs:
        methods.setdefault(job.dataset, {})[job.method] = None
    return [
        f"python -m paper {product} --run --datasets {dataset} --methods {','.join(names)}"
        + "".join(f" {shlex.quote(option)}" for option in options)
        for dataset, names in methods.items()
    ]
