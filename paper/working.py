"""Making the records that are missing, one after the other, each kept as soon as it is there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import torch
from rich.console import Console

from densirank.data.datasets import Part, load_public
from densirank.data.interactions import Interactions
from densirank.errors import DensirankError, StorageError
from densirank.training.callbacks import Callback, Interruption
from paper.ablation import ablate, pieces_of
from paper.choosing import beginning, choose
from paper.grids import QUICK_SENSITIVITY, SENSITIVITY, Stage
from paper.per_user import write_per_user
from paper.planning import Job, grid_of
from paper.records import (
    NDCG,
    AblationRecord,
    Records,
    SearchRecord,
    SensitivityRecord,
    made_on,
)
from paper.running import draw_curve, run_once


class OutOfTime(Exception):
    """No new work is to be started."""


class PublicData:
    """The public data sets, each part read on first access."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._parts: dict[tuple[str, Part], Interactions] = {}

    def part(self, dataset: str, part: Part) -> Interactions:
        """The train or the test part of a set."""
        if (dataset, part) not in self._parts:
            self._parts[dataset, part] = load_public(dataset, part, self._folder)
        return self._parts[dataset, part]


@dataclass(frozen=True)
class Workshop:
    """Does jobs: where the records go, with which data, on what device and until when."""

    records: Records
    data: PublicData
    console: Console
    device: str = "auto"
    quick: bool = False
    deadline: float = float("inf")  # by time.monotonic
    callbacks: Sequence[Callback] = ()
    interruption: Interruption = field(default_factory=Interruption)

    def work(self, jobs: Iterable[Job]) -> list[str]:
        """Run the jobs in order until the time is up; return a message for each failed job.

        What cannot be done does not hold up the rest, except for what rests on it. After a first
        Ctrl-C what is being fitted is left, after a second one everything at once.
        """
        with self.interruption:
            return self._work(jobs)

    def _work(self, jobs: Iterable[Job]) -> list[str]:
        faults: list[str] = []
        absent: set[str] = set()
        given_up: set[tuple[str, str]] = set()
        for job in jobs:
            if job.dataset in absent or (job.dataset, job.method) in given_up:
                continue
            try:
                self._check_whether_to_go_on()
                train = self.data.part(job.dataset, "train")
            except OutOfTime:
                break
            except DensirankError as error:
                absent.add(job.dataset)
                faults.append(f"{job.dataset}: {error}")
                continue
            try:
                self._do(job, train)
            except OutOfTime:
                break
            except (DensirankError, MemoryError, torch.OutOfMemoryError) as error:
                given_up.add((job.dataset, job.method))
                faults.append(f"{job}: {str(error) or type(error).__name__}")
        return faults

    def _do(self, job: Job, train: Interactions) -> None:
        match job.kind:
            case "choice":
                self._choose(job, train)
            case "run":
                self._run(job, train)
            case "curve":
                self._draw_curve(job, train)
            case "sensitivity":
                self._vary_norm(job, train)
            case "ablation":
                self._ablate(job, train)

    def _choose(self, job: Job, train: Interactions) -> None:
        grid = grid_of(job.method, self.quick)
        begun = beginning(
            train, job.dataset, job.method, grid.fixed, self.device, held_out=grid.held_out
        )
        self._search(job, train, begun, grid.stages)

    def _vary_norm(self, job: Job, train: Interactions) -> None:
        """The chosen settings with every n̄, with the number of iterations chosen for each."""
        choice = self._choice(job, train)
        assert choice.chosen is not None
        settings = choice.settings | choice.trials[choice.chosen].varied
        begun = beginning(train, job.dataset, job.method, settings, self.device, SensitivityRecord)
        self._search(job, train, begun, [QUICK_SENSITIVITY if self.quick else SENSITIVITY])

    def _search(
        self, job: Job, train: Interactions, begun: SearchRecord, stages: Sequence[Stage]
    ) -> None:
        """Choose, going on from what an earlier search with the same start has tried already."""
        stored = self.records.find(type(begun), job.dataset, begun.name)
        if stored is not None and made_on(stored, train) and _same_start(stored, begun):
            begun = replace(begun, trials=stored.trials)

        def keep(record: SearchRecord) -> None:
            self.records.keep(record)
            trial = record.trials[-1]
            varied = ", ".join(f"{key} {value}" for key, value in trial.varied.items())
            found = trial.failed or f"validation {NDCG} {trial.ndcg:.4f}"
            self._say(f"{job}: {varied or 'start'}: {found} ({trial.seconds:.1f} s)")
            self._check_whether_to_go_on()

        chosen = choose(
            train, begun, stages, device=self.device, keep=keep, callbacks=self.callbacks
        )
        self.records.keep(chosen)

    def _run(self, job: Job, train: Interactions) -> None:
        record, evaluation = run_once(
            train,
            lambda: self.data.part(job.dataset, "test"),
            self._choice(job, train),
            job.seed,
            device=self.device,
            callbacks=self.callbacks,
        )
        path = self.records.per_user_path(job.dataset, job.method)
        path.parent.mkdir(parents=True, exist_ok=True)
        if job.seed == 0:
            write_per_user(path, train.user_ids.ids[evaluation.users], evaluation.per_user)
        self.records.keep(record)
        self._say(f"{job}: test {NDCG} {record.metrics[NDCG]:.4f} ({record.seconds:.1f} s)")

    def _draw_curve(self, job: Job, train: Interactions) -> None:
        curve = draw_curve(
            train,
            lambda: self.data.part(job.dataset, "test"),
            self._choice(job, train),
            job.seed,
            device=self.device,
            callbacks=self.callbacks,
        )
        self.records.keep(curve)
        self._say(f"{job}: {len(curve.points)} points")

    def _ablate(self, job: Job, train: Interactions) -> None:
        """The chosen settings without each of their pieces that was not taken away yet."""
        choice, seeds = self._choice(job, train), grid_of(job.method, self.quick).seeds
        for piece in pieces_of(choice):
            name = AblationRecord.name_of(job.method, piece)
            if self.records.find(AblationRecord, job.dataset, name) is not None:
                continue
            self._check_whether_to_go_on()
            record, users, metrics = ablate(
                train, choice, piece, seeds, device=self.device, callbacks=self.callbacks
            )
            path = self.records.beside(record)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_per_user(path, users, metrics)
            self.records.keep(record)
            self._say(f"{job}, without {piece}: validation {NDCG} {mean(record.ndcgs):.4f}")

    def _check_whether_to_go_on(self) -> None:
        if self.interruption.requested:
            raise KeyboardInterrupt
        if time.monotonic() >= self.deadline:
            raise OutOfTime

    def _choice(self, job: Job, train: Interactions) -> SearchRecord:
        """The finished choice that a job rests on."""
        choice = self.records.find(SearchRecord, job.dataset, job.method)
        if choice is None or choice.chosen is None:
            raise StorageError(f"the settings of {job.method} on {job.dataset} are not chosen yet")
        if not made_on(choice, train):
            raise StorageError(f"{job.method} was chosen on other training data of {job.dataset}")
        return choice

    def _say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False)


def _same_start(one: SearchRecord, other: SearchRecord) -> bool:
    keys = ("settings", "held_out")
    return all(getattr(one, key) == getattr(other, key) for key in keys)
