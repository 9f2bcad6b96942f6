"""What is kept of the experiments: one small JSON file for each search, run and curve.

FOLDER/choices/<dataset>/<method>.json       the settings tried on validation data, the best one
FOLDER/runs/<dataset>/<method>-seed0.json    one fit on all of train, tested once
FOLDER/curves/<dataset>/<method>-seed0.json  test figures on the way of a fit; nothing reads
                                             them but the picture
FOLDER/sensitivity/<dataset>/<method>.json   validation figures for other n̄
FOLDER/ablations/<dataset>/<method>-without-<piece>.json  validation figures without a piece
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

from densirank.data.datasets import PUBLIC_SETS
from densirank.data.interactions import Interactions
from densirank.errors import StorageError
from densirank.files import written_atomically
from densirank.methods import METHODS

FORMAT = 1
K = 20
RECALL, NDCG = f"recall@{K}", f"ndcg@{K}"


@dataclass(frozen=True)
class Record:
    """What every record says: what was fitted, on what, with what and where."""

    kind: ClassVar[str]
    folder: ClassVar[str]

    method: str
    dataset: str
    seed: int
    settings: dict[str, Any]
    train_fingerprint: str
    versions: dict[str, Any]
    hardware: dict[str, Any]
    commit: str | None = field(default=None, kw_only=True)
    """Of the checkout that made it; None outside of one, and in records from before it was kept."""
    clean: bool | None = field(default=None, kw_only=True)
    """Whether that checkout was the commit itself, without changes."""

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return f"{self.method}-seed{self.seed}"

    def fault(self) -> str | None:
        """What is wrong with what was read, where every field is there and of its type."""
        return None


@dataclass(frozen=True)
class RunRecord(Record):
    """One fit on all training data, and its test figures."""

    kind: ClassVar[str] = "run"
    folder: ClassVar[str] = "runs"

    test_fingerprint: str
    iterations: int
    seconds: float
    metrics: dict[str, Any]

    def fault(self) -> str | None:
        there = all(isinstance(self.metrics.get(name), float) for name in (RECALL, NDCG))
        return None if there else f"it lacks {RECALL} or {NDCG}"


@dataclass(frozen=True)
class CurveRecord(Record):
    """The test nDCG@20 on the way of one fit; its clock stood while it was tested."""

    kind: ClassVar[str] = "curve"
    folder: ClassVar[str] = "curves"

    test_fingerprint: str
    points: list[list[float]]
    """[iteration, seconds, nDCG@20]"""

    def fault(self) -> str | None:
        whole = all(len(point) == 3 for point in self.points)
        return None if whole else "a point has three numbers"


@dataclass(frozen=True)
class Trial:
    """One setting tried on validation data: how it differs from the start, and how it did."""

    varied: dict[str, Any]
    ndcg: float | None
    iterations: int | None
    """How many were best; None for what is not trained step by step."""
    seconds: float
    failed: str | None = None
    """Why there is no figure."""


@dataclass(frozen=True)
class SearchRecord(Record):
    """Settings tried on validation data, which is a part of the training data.

    ``settings`` are those of the start. While a search goes on, nothing is ``chosen`` yet.
    """

    kind: ClassVar[str] = "choice"
    folder: ClassVar[str] = "choices"

    trials: list[Trial] = field(default_factory=list)
    chosen: int | None = None
    held_out: list[float] = field(default_factory=list)
    """Shares of each user's last items; a trial's figure is the mean over fits without each."""

    @property
    def name(self) -> str:
        return self.method

    def fault(self) -> str | None:
        held = self.chosen is None or 0 <= self.chosen < len(self.trials)
        return None if held else "it chose a trial that it does not hold"

    def settings_of(self, trial: Trial) -> dict[str, Any]:
        """All settings of a trial, with the number of iterations that were best."""
        iterations = {} if trial.iterations is None else {"iterations": trial.iterations}
        return self.settings | trial.varied | iterations

    @property
    def chosen_settings(self) -> dict[str, Any] | None:
        """The settings of a run; None while the search is running."""
        return None if self.chosen is None else self.settings_of(self.trials[self.chosen])


@dataclass(frozen=True)
class SensitivityRecord(SearchRecord):
    """The chosen settings with other n̄, on validation data."""

    kind: ClassVar[str] = "sensitivity"
    folder: ClassVar[str] = "sensitivity"


@dataclass(frozen=True)
class AblationRecord(Record):
    """The chosen settings without a piece, on validation data, from several seeds."""

    kind: ClassVar[str] = "ablation"
    folder: ClassVar[str] = "ablations"

    without: str
    ndcgs: list[float]
    """One a seed."""
    seconds: float
    """Of a fit and its validation, on average."""

    @staticmethod
    def name_of(method: str, piece: str) -> str:
        return f"{method}-without-{piece}"

    @property
    def name(self) -> str:
        return self.name_of(self.method, self.without)

    def fault(self) -> str | None:
        return None if self.ndcgs else "it has no figure"


LATER_FIELDS = frozenset({"commit", "clean"})
"""What older records do not have."""

R = TypeVar("R", bound=Record)


class Records:
    """A folder of records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, kind: type[Record], dataset: str, name: str) -> Path:
        """Where a record is, or will be."""
        return self.folder / kind.folder / dataset / f"{name}.json"

    def keep(self, record: Record) -> Path:
        """Write a record, whole or not at all."""
        path = self.path(type(record), record.dataset, record.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"record": record.kind, "format": FORMAT} | asdict(record)
        with written_atomically(path) as temporary:
            text = json.dumps(content, indent=1, allow_nan=False)
            temporary.write_text(text + "\n", encoding="utf-8")
        return path

    def find(self, kind: type[R], dataset: str, name: str) -> R | None:
        """A record, checked to be the one its place says; None if there is none."""
        path = self.path(kind, dataset, name)
        if not path.exists():
            return None
        record = _read(path, kind)
        if (record.dataset, record.name) != (dataset, name):
            raise StorageError(f"{path} is of {record.name} on {record.dataset}")
        _check_data(path, record)
        return record

    def runs(self, dataset: str, method: str) -> list[RunRecord]:
        """All runs of a method, which must share their settings."""
        runs = list(self._runs(dataset, method))
        for run in runs[1:]:
            if run.settings != runs[0].settings:
                raise StorageError(
                    f"the runs of {method} on {dataset} in {self.folder} were made with different "
                    "settings: take the old ones away"
                )
        return runs

    def _runs(self, dataset: str, method: str) -> Iterator[RunRecord]:
        paths = (self.folder / RunRecord.folder / dataset).glob(f"{method}-seed*.json")
        for name in sorted(path.stem for path in paths):
            run = self.find(RunRecord, dataset, name)
            if run is not None:
                yield run

    def beside(self, record: Record) -> Path:
        """Where the metrics of each user are that belong to a record."""
        return self.path(type(record), record.dataset, record.name).with_suffix(".parquet")

    def per_user_path(self, dataset: str, method: str) -> Path:
        """The file of the per-user metrics, which are stored only for seed 0."""
        return self.path(RunRecord, dataset, f"{method}-seed0").with_suffix(".parquet")


def _read(path: Path, kind: type[R]) -> R:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} is damaged: it is no JSON ({error})") from error
    if not isinstance(content, dict) or content.pop("record", None) != kind.kind:
        raise StorageError(f"{path} is no record of a {kind.kind}")
    if content.pop("format", None) != FORMAT:
        raise StorageError(f"{path} has another format than this version of densirank writes")
    record: R = _built(kind, content, path)
    if record.fault() is not None:
        raise StorageError(f"{path} is damaged: {record.fault()}")
    if record.method not in METHODS:
        return record
    return replace(record, settings=METHODS[record.method].own(record.settings))


def _built(kind: type[Any], content: Any, path: Path) -> Any:
    """An instance of a dataclass from JSON, every field there and of its type."""
    hints = get_type_hints(kind)
    names = {part.name for part in fields(kind)}
    if not isinstance(content, dict) or set(content) | LATER_FIELDS != names | LATER_FIELDS:
        raise StorageError(f"{path} is damaged: it lacks a field of a {kind.__name__}, or has more")
    for name in content:
        if get_args(hints[name]) == (Trial,) and isinstance(content[name], list):
            content[name] = [_built(Trial, trial, path) for trial in content[name]]
        if not _fits(content[name], hints[name]):
            raise StorageError(f"{path} is damaged: its {name} cannot be {content[name]!r}")
    return kind(**content)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value read from JSON is of an annotated type."""
    arguments = get_args(hint)
    if isinstance(hint, UnionType):
        return any(_fits(value, option) for option in arguments)
    if hint is Any:
        return True
    if hint in (int, float):
        return isinstance(value, int | hint) and not isinstance(value, bool)
    if hint is NoneType:
        return value is None
    if get_origin(hint) is list:
        return isinstance(value, list) and all(_fits(entry, arguments[0]) for entry in value)
    return isinstance(value, get_origin(hint) or hint)


def made_on(record: Record, train: Interactions) -> bool:
    """Whether a record was made on these training data; older ones only have the pairs' mark."""
    return record.train_fingerprint in (train.fingerprint, train.pairs_fingerprint)


def _check_data(path: Path, record: Record) -> None:
    """Refuse a record that was made on other data than the set's."""
    if record.dataset not in PUBLIC_SETS:
        return
    known = PUBLIC_SETS[record.dataset]
    for part, published in (("train", known.train), ("test", known.test)):
        expected = {published.fingerprint, published.pairs_fingerprint} - {None}
        seen = getattr(record, f"{part}_fingerprint", None)
        if seen is not None and expected and seen not in expected:
            raise StorageError(f"{path} was made on another {part} part than {record.dataset}'s")
