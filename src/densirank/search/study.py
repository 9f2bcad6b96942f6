"""The result of a search, and its folder: description, trials, and the settings to fit with."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from densirank._version import __version__
from densirank.dimensions import Space
from densirank.errors import InputError, StorageError, TrainingError
from densirank.files import written_atomically
from densirank.methods import Method
from densirank.search.trial import Trial, best_of
from densirank.storage import prepare_folder

SEARCH = "search.json"
TRIALS = "trials.jsonl"
BEST = "best.toml"


@dataclass(frozen=True)
class Study:
    """The trials of a search so far."""

    method: Method
    space: Space
    fixed: dict[str, Any]
    """The settings that were given and not searched."""
    trials: tuple[Trial, ...]
    interrupted: bool = False

    @property
    def best(self) -> Trial:
        """The finished trial that ranked the held-out items best."""
        best = best_of(self.trials)
        if best is None:
            raise TrainingError(
                f"none of {len(self.trials)} trials finished: lower learning_rate or max_norm "
                "(norm clipping) in the search space"
            )
        return best

    @property
    def settings(self) -> dict[str, Any]:
        """The settings for a :class:`densirank.Ranker` that is fitted to all of the data.

        With a constant step size (``decay`` is 0), a shorter run is a prefix of a longer one, so
        ``iterations`` is where validation was best. A falling step size depends on ``iterations``:
        a run cut at the best iteration would use rates that were not tried. Then ``iterations``
        stays the length of the whole schedule, at whose end the trial was evaluated.
        """
        chosen = self.fixed | self.best.settings
        if self.method.risk is None:
            return chosen
        whole = self.method.settings(**chosen)
        best_iteration = self.best.best_iteration
        if whole.decay > 0 or best_iteration is None:
            return chosen | {"iterations": whole.iterations}
        return chosen | {"iterations": best_iteration}


class Folder:
    """The folder of a search; raises if it belongs to another search, naming the first difference.

    ``search`` describes the search: data, method, space, seed and whatever else determines its
    trials. ``trials.jsonl`` is the only record of them: a search resumes from it, with any way to
    propose trials.
    """

    def __init__(self, path: Path, search: Mapping[str, Any], resume: bool) -> None:
        prepare_folder(path, {SEARCH}, "search")
        self._path, self._trials = path, path / TRIALS
        if not (path / SEARCH).exists():
            self._write(SEARCH, json.dumps(search, indent=2))
        elif not resume:
            raise InputError(
                f"{path} holds a search already; resume it (--resume), or choose another folder"
            )
        else:
            _check_same(path / SEARCH, search)

    def trials(self) -> list[Trial]:
        """The finished trials; an incomplete last line, left by a killed process, is removed."""
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
                    f"{self._trials}, line {number}, is not a valid trial "
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
        """Write the settings to fit with, as ``densirank fit --config`` reads them."""
        best = study.best
        lines = [
            f"# Trial {best.number} of {len(study.trials)}: validation nDCG@20 {best.ndcg:.4f}.",
            f"# densirank fit DATA --method {study.method.name} --config {BEST} --out MODEL",
            *(
                f"{key} = {json.dumps('none' if value is None else value)}"
                for key, value in study.settings.items()
            ),
        ]
        self._write(BEST, "\n".join(lines))

    def _write(self, name: str, text: str) -> None:
        with written_atomically(self._path / name) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")


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
