"""A search on disk: what it is, every finished trial at once, and at the end what to fit."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from densirank._version import __version__
from densirank.errors import InputError, StorageError
from densirank.files import written_atomically
from densirank.storage import prepare_folder
from densirank.tuning.trials import Study, Trial

SEARCH = "search.json"
TRIALS = "trials.jsonl"
BEST = "best.toml"


class Records:
    """The folder of a search; one of another search is refused, naming the first difference.

    ``search`` says what the search is: data, method, space, seed and whatever else decides what
    its trials are.
    """

    def __init__(self, folder: Path, search: Mapping[str, Any], resume: bool) -> None:
        prepare_folder(folder, {SEARCH}, "search")
        self._folder, self._trials = folder, folder / TRIALS
        description = folder / SEARCH
        if not description.exists():
            with written_atomically(description) as temporary:
                temporary.write_text(json.dumps(search, indent=2) + "\n", encoding="utf-8")
        elif not resume:
            raise InputError(
                f"{folder} holds a search already; go on with it (--resume), or choose another"
            )
        else:
            _check_same(description, search)

    def trials(self) -> list[Trial]:
        """The trials that are finished; half a line, left by a process that was killed, is cut."""
        if not self._trials.exists():
            return []
        written = self._trials.read_bytes()
        whole = written.rfind(b"\n") + 1
        if whole < len(written):
            os.truncate(self._trials, whole)
        trials = []
        for number, line in enumerate(written[:whole].splitlines(), start=1):
            try:
                trial = Trial.from_json(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise StorageError(
                    f"{self._trials}, line {number}, describes no trial "
                    f"({type(error).__name__}: {error})"
                ) from error
            if trial.number != number:
                raise StorageError(
                    f"{self._trials}, line {number}, has trial {trial.number}, not {number}: "
                    "lines are missing, or two searches wrote to it"
                )
            trials.append(trial)
        return trials

    def add(self, trial: Trial, seed: int) -> None:
        """Append a trial; it is on disk when this returns."""
        record = trial.to_json() | {"seed": seed, "versions": _versions()}
        with self._trials.open("a", encoding="utf-8") as log:
            log.write(json.dumps(record) + "\n")
            log.flush()
            os.fsync(log.fileno())

    def write_best(self, study: Study) -> None:
        """The settings to fit with, in the form ``densirank fit --config`` reads."""
        best = study.best
        lines = [
            f"# Trial {best.number} of {len(study.trials)}: validation nDCG@20 {best.ndcg:.4f}.",
            f"# densirank fit DATA --method {study.method.name} --config {BEST} --out MODEL",
            *(f"{key} = {_toml(value)}" for key, value in study.settings.items()),
        ]
        with written_atomically(self._folder / BEST) as temporary:
            temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _check_same(description: Path, search: Mapping[str, Any]) -> None:
    try:
        saved = json.loads(description.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StorageError(f"{description} is damaged: it is not JSON ({error})") from error
    ours = json.loads(json.dumps(search))
    for key in dict.fromkeys((*ours, *saved)):
        if saved.get(key) != ours.get(key):
            raise StorageError(
                f"{description.parent} belongs to another search: its {key} is "
                f"{saved.get(key)!r}, not {ours.get(key)!r}; choose another folder"
            )


def _versions() -> dict[str, str]:
    versions = {"densirank": __version__, "torch": torch.__version__}
    try:
        return versions | {"optuna": version("optuna")}
    except PackageNotFoundError:
        return versions


def _toml(value: object) -> str:
    return json.dumps("none" if value is None else value)
