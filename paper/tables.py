"""Tables 1 and 2 of the paper and the reference table: our results and the published ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from paper.grids import QUICK_ITERATIONS
from paper.planning import grid_of
from paper.records import NDCG, RECALL, Records
from paper.rows import DATASETS, ResultTable, Row, Score
from paper.sheets import Sheet

NOT_RUN = "not run"
COLUMNS = tuple(
    heading for metric in ("R@20", "nDCG@20") for heading in (metric, "published", "difference")
)


@dataclass(frozen=True)
class Spread:
    """A mean over seeds and its standard deviation, which a single seed does not have."""

    mean: float
    sd: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(mean(values), stdev(values) if len(values) > 1 else None)

    def __str__(self) -> str:
        return figure(self.mean) + ("" if self.sd is None else f" ± {figure(self.sd)}")


@dataclass(frozen=True)
class Line:
    """One method on one data set."""

    row: Row
    label: str
    dataset: str
    seeds: tuple[int, ...]
    expected: int
    recall: Spread | None
    ndcg: Spread | None
    seconds: float | None

    @property
    def published(self) -> Score | None:
        return self.row.published.get(self.dataset)

    @property
    def state(self) -> str:
        """How much of it has been run."""
        return f"{len(self.seeds)} of {self.expected}"

    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        published = self.published
        cells = [
            *_compared(self.recall, None if published is None else published.recall),
            *_compared(self.ndcg, None if published is None else published.ndcg),
        ]
        seconds = "" if self.seconds is None else f"{self.seconds:.1f} s"
        return (self.label, *cells, self.state, seconds)

    def to_json(self) -> dict[str, Any]:
        """The line as plain values; nothing is rounded."""
        spread = {name: getattr(self, name) for name in ("recall", "ndcg")}
        return {
            "dataset": self.dataset,
            "method": self.row.method,
            "label": self.label,
            "seeds": list(self.seeds),
            "seeds_expected": self.expected,
            **{
                f"{name}@20": None if found is None else {"mean": found.mean, "sd": found.sd}
                for name, found in spread.items()
            },
            "published": None
            if self.published is None
            else {RECALL: self.published.recall, NDCG: self.published.ndcg},
            "seconds": self.seconds,
        }


def lines_of(
    table: ResultTable,
    records: Records,
    dataset: str,
    methods: Sequence[str] | None = None,
    quick: bool = False,
) -> list[Line]:
    """A table's rows on one data set, from the records there are."""
    lines = []
    for place, row in enumerate(table.rows):
        if methods is not None and row.method not in methods:
            continue
        runs = records.runs(dataset, row.method)
        recalls, ndcgs = ([run.metrics[name] for run in runs] for name in (RECALL, NDCG))
        lines.append(
            Line(
                row,
                f"({chr(ord('a') + place)}) {row.label}" if table.lettered else row.label,
                dataset,
                tuple(run.seed for run in runs),
                len(grid_of(row.method, quick).seeds),
                Spread.of(recalls) if runs else None,
                Spread.of(ndcgs) if runs else None,
                mean(run.seconds for run in runs) if runs else None,
            )
        )
    return lines


def sheet_of(table: ResultTable, dataset: str, lines: Sequence[Line], quick: bool = False) -> Sheet:
    """A table on one data set, rendered."""
    note = "± is the standard deviation over seeds."
    if quick:
        note = f"Quick runs of {QUICK_ITERATIONS} iterations, to see that all works: no results."
    return Sheet(
        f"{table.title}: {DATASETS.get(dataset, dataset)}",
        ("method", *COLUMNS, "seeds", "training"),
        tuple(line.cells() for line in lines),
        f"{note} {table.note}".strip(),
    ).narrowed()


def _compared(ours: Spread | None, published: float | None) -> tuple[str, str, str]:
    """Ours, the published figure, and how far ours is above it."""
    theirs = "–" if published is None else figure(published)
    if ours is None:
        return NOT_RUN, theirs, ""
    return str(ours), theirs, "" if published is None else figure(ours.mean - published, "+")


def figure(value: float, sign: str = "") -> str:
    """Four digits without the zero before the point, which all of them would have.

    >>> figure(0.18594), figure(-0.0012, "+"), figure(-0.00001, "+")
    ('.1859', '-.0012', '+.0000')
    """
    rounded = round(value, 4) + 0.0  # which makes a negative zero a plain one
    return f"{rounded:{sign}.4f}".replace("0.", ".", 1)
