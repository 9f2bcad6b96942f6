"""The ablation as a table: each line the method without a piece, compared with the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from densirank.evaluation.significance import Comparison, compare
from paper.ablation import PIECES, WHOLE
from paper.per_user import read_per_user
from paper.records import AblationRecord, Records
from paper.rows import DATASETS
from paper.sheets import Sheet
from paper.significance_table import QUICK_TRIALS, TRIALS, probability
from paper.tables import Spread, figure

LABELS: Mapping[str, str] = {
    WHOLE: "densirank",
    "order": "without the order of time, in any place",
    "recency": "without recency of positives",
    "filter-recency": "without recency in the filter",
    "filter-span": "without nearness in time in the filter",
    "filter": "without the item filter",
    "base-density": "without the base density",
    "user-weights": "without weights of users",
    "all-candidates": "the batch's items as candidates",
    "dimensions": "64 dimensions",
    "clipping": "without norm clipping",
}
COLUMNS = ("what", "validation nDCG@20", "difference", "paired p", "paired g [95% CI]", "seeds")


@dataclass(frozen=True)
class Ablated:
    """One line: the method without a piece, compared with the whole."""

    record: AblationRecord
    found: Comparison | None  # the whole first; None for itself

    def cells(self) -> tuple[str, ...]:
        """The line as text; the difference is that of the method without the piece."""
        label = LABELS[self.record.without]
        ndcg, seeds = str(Spread.of(self.record.ndcgs)), str(len(self.record.ndcgs))
        if self.found is None:
            return (label, ndcg, "", "", "", seeds)
        effect = self.found.paired
        return (
            label,
            ndcg,
            figure(-self.found.difference, "+"),
            probability(self.found.p_paired),
            f"{figure(-effect.g, '+')} [{figure(-effect.high, '+')}, {figure(-effect.low, '+')}]",
            seeds,
        )

    def to_json(self) -> dict[str, Any]:
        """The line as plain values; nothing is rounded."""
        return {
            "dataset": self.record.dataset,
            "without": self.record.without,
            "ndcg@20": self.record.ndcgs,
            "seconds": self.record.seconds,
            "whole against this": None if self.found is None else asdict(self.found),
        }


def ablated(records: Records, dataset: str, method: str, quick: bool = False) -> list[Ablated]:
    """All lines of a data set that there are records for, tested together."""
    there: dict[str, AblationRecord] = {}
    for piece in PIECES:
        record = records.find(AblationRecord, dataset, AblationRecord.name_of(method, piece))
        if record is not None:
            there[piece] = record
    if WHOLE not in there:
        return []
    per_user = {
        piece: read_per_user(records.beside(record))[1]["ndcg"].astype(np.float64)
        for piece, record in there.items()
    }
    against: dict[str, Comparison] = {}
    if len(per_user) > 1:
        compared = compare(per_user, QUICK_TRIALS if quick else TRIALS)
        against = {one.second: one for one in compared if one.first == WHOLE}
    return [Ablated(record, against.get(piece)) for piece, record in there.items()]


def sheet_of_ablated(dataset: str, lines: Sequence[Ablated]) -> Sheet:
    """The ablation table of one data set."""
    return Sheet(
        f"Ablation of densirank: {DATASETS.get(dataset, dataset)}",
        COLUMNS,
        tuple(line.cells() for line in lines),
        "On validation data, with the settings chosen there; ± is the standard deviation over "
        "seeds. The paired randomised Tukey HSD is over users, all lines tested together.",
    )
