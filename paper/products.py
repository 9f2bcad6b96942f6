"""Each table and figure, made from the records as they are: sheets to read, data and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from densirank.files import written_atomically
from paper.ablation_table import ablated, sheet_of_ablated
from paper.adversarial import QUICK_LOOKS, Game, play
from paper.figures import (
    Series,
    curves,
    draw_efficiency,
    draw_sensitivity,
    sensitivities,
)
from paper.planning import ABLATED
from paper.records import Records
from paper.rows import TABLES, ResultTable
from paper.sheets import Sheet
from paper.significance_table import compared_pairs, sheet_of_pairs
from paper.statements import FAMILIES
from paper.tables import lines_of, sheet_of


@dataclass(frozen=True)
class Request:
    """What is to be shown, and from which records."""

    records: Records
    datasets: Sequence[str]
    methods: Sequence[str] | None = None
    quick: bool = False
    run: bool = False
    pictures: Path = Path()
    """The folder that figures are written to."""


@dataclass(frozen=True)
class Shown:
    """A product in the forms it has."""

    data: Any
    sheets: list[Sheet] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    def write(self, folder: Path, name: str) -> list[Path]:
        """The data as JSON and the sheets as Markdown."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {".json": json.dumps(self.data, indent=1) + "\n"}
        if self.sheets:
            texts[".md"] = "\n".join(sheet.markdown() for sheet in self.sheets)
        for suffix, text in texts.items():
            with written_atomically(folder / f"{name}{suffix}") as temporary:
                temporary.write_text(text, encoding="utf-8")
        return [folder / f"{name}{suffix}" for suffix in texts]


def result_table(table: ResultTable, asked: Request) -> Shown:
    """A table of test figures, a sheet for each data set."""
    lines = {
        dataset: lines_of(table, asked.records, dataset, asked.methods, asked.quick)
        for dataset in asked.datasets
    }
    return Shown(
        [line.to_json() for of_set in lines.values() for line in of_set],
        [
            sheet_of(table, dataset, of_set, asked.quick)
            for dataset, of_set in lines.items()
            if of_set
        ],
    )


def significance(asked: Request) -> Shown:
    """The comparisons that the paper's text makes, a sheet for each table and data set."""
    data: list[dict[str, Any]] = []
    sheets: list[Sheet] = []
    for family in FAMILIES.values():
        for dataset in asked.datasets:
            pairs, tested = compared_pairs(
                family, asked.records, dataset, asked.methods, asked.quick
            )
            data += [pair.to_json() for pair in pairs]
            if pairs:
                sheets.append(sheet_of_pairs(family, dataset, pairs, tested))
    return Shown(data, sheets)


def ablation(asked: Request) -> Shown:
    """What each piece of the library's own method brings, a sheet for each data set."""
    wanted = asked.methods is None or ABLATED in asked.methods
    lines = {
        dataset: ablated(asked.records, dataset, ABLATED, asked.quick)
        for dataset in (asked.datasets if wanted else ())
    }
    return Shown(
        [line.to_json() for of_set in lines.values() for line in of_set],
        [sheet_of_ablated(dataset, of_set) for dataset, of_set in lines.items() if of_set],
    )


def efficiency(asked: Request) -> Shown:
    """How fast methods learn."""
    series = curves(asked.records, asked.datasets, asked.methods)
    return _pictured(series, draw_efficiency, asked)


def sensitivity(asked: Request) -> Shown:
    """How much n̄ matters."""
    series = sensitivities(asked.records, asked.datasets, asked.methods)
    return _pictured(series, draw_sensitivity, asked)


def adversarial(asked: Request) -> Shown:
    """IRWGAN compared with PDE; the data set is small, so it can be trained here on request."""
    path = asked.records.folder / "adversarial.json"
    wanted = asked.methods is None or "irwgan" in asked.methods
    if wanted and asked.run and not path.exists():
        (play(QUICK_LOOKS) if asked.quick else play()).write(path)
    if not wanted or not path.exists():
        return Shown([])
    game = Game.read(path)
    return Shown(game.to_json(), [game.sheet()])


def _pictured(
    series: list[Series], draw: Callable[[list[Series], Path], list[Path]], asked: Request
) -> Shown:
    files = draw(series, asked.pictures) if series else []
    return Shown([asdict(one) for one in series], files=files)


MAKERS: Mapping[str, Callable[[Request], Shown]] = {
    **{name: partial(result_table, table) for name, table in TABLES.items()},
    "significance": significance,
    "figure-efficiency": efficiency,
    "figure-sensitivity": sensitivity,
    "ablation": ablation,
    "adversarial": adversarial,
}
