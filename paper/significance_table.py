"""Significance of differences between methods, compared with the published values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from densirank.errors import StorageError
from densirank.evaluation.metrics import Floats
from densirank.evaluation.significance import Comparison, compare
from paper.per_user import read_per_user
from paper.records import Records
from paper.rows import DATASETS, LABELS, ResultTable
from paper.sheets import Sheet
from paper.statements import PAIRS, TINY, Pair, Stated
from paper.tables import NOT_RUN, figure

TRIALS = 5000
QUICK_TRIALS = 100
COLUMNS = (
    "methods",
    "difference",
    "paired p",
    "paired g [95% CI]",
    "unpaired p",
    "unpaired g",
    "paper's p",
    "paper's |g|",
)


@dataclass(frozen=True)
class ComparedPair:
    """Two methods on one data set, compared user by user where both were run."""

    pair: Pair
    dataset: str
    found: Comparison | None

    @property
    def stated(self) -> Stated | None:
        return self.pair.stated.get(self.dataset)

    def cells(self) -> tuple[str, ...]:
        """The pair as a line of text."""
        methods = f"{LABELS[self.pair.first]} − {LABELS[self.pair.second]}"
        stated = ("–", "–") if self.stated is None else (self.stated.p, figure(self.stated.g))
        if self.found is None:
            return (methods, NOT_RUN, "", "", "", "", *stated)
        effect = self.found.paired
        return (
            methods,
            figure(self.found.difference, "+"),
            probability(self.found.p_paired),
            f"{figure(effect.g, '+')} [{figure(effect.low, '+')}, {figure(effect.high, '+')}]",
            probability(self.found.p_unpaired),
            figure(self.found.unpaired_g, "+"),
            *stated,
        )

    def to_json(self) -> dict[str, Any]:
        """The pair as plain values; nothing is rounded."""
        return {
            "dataset": self.dataset,
            "first": self.pair.first,
            "second": self.pair.second,
            "found": None if self.found is None else asdict(self.found),
            "stated": None if self.stated is None else asdict(self.stated),
        }


def compared_pairs(
    family: ResultTable,
    records: Records,
    dataset: str,
    methods: Sequence[str] | None = None,
    quick: bool = False,
) -> tuple[list[ComparedPair], list[str]]:
    """The paper's comparisons within a table, and the methods that were tested together for them.

    Whatever pair is looked at, all methods of the table that were run take part in the test.
    """
    per_user = _per_user_ndcg(records, dataset, family.methods)
    found: list[Comparison] = []
    if len(per_user) > 1:
        found = compare(per_user, QUICK_TRIALS if quick else TRIALS)
    by_names = {(one.first, one.second): one for one in found}
    by_names |= {(one.second, one.first): _turned(one) for one in found}
    pairs = [
        ComparedPair(pair, dataset, by_names.get((pair.first, pair.second)))
        for pair in PAIRS[family.name]
        if methods is None or {pair.first, pair.second} <= set(methods)
    ]
    return pairs, list(per_user)


def sheet_of_pairs(
    family: ResultTable, dataset: str, pairs: Sequence[ComparedPair], tested: Sequence[str]
) -> Sheet:
    """The comparisons within a table on one data set, rendered as a table."""
    labels = ", ".join(LABELS[method] for method in tested)
    return Sheet(
        f"Significance in nDCG@20 among {family.name}: {DATASETS.get(dataset, dataset)}",
        COLUMNS,
        tuple(pair.cells() for pair in pairs),
        f"Paired: randomised Tukey HSD over the users, seed 0 of each method; unpaired: the "
        f"classical one. Tested together: {labels or 'none'}.",
    ).narrowed()


def probability(p: float) -> str:
    """A p-value with three digits.

    >>> probability(0.0449), probability(0.0002)
    ('.045', '< .001')
    """
    return TINY if p < 0.001 else f"{p:.3f}".removeprefix("0")


def _per_user_ndcg(records: Records, dataset: str, methods: Sequence[str]) -> Mapping[str, Floats]:
    """The nDCG@20 of the same users by every method that was run."""
    per_user: dict[str, Floats] = {}
    first_users = None
    for method in methods:
        path = records.per_user_path(dataset, method)
        if not path.exists():
            continue
        users, metrics = read_per_user(path)
        if first_users is not None and not np.array_equal(users, first_users):
            raise StorageError(f"{path} has other users than the runs it is compared with")
        first_users = users
        per_user[method] = metrics["ndcg"].astype(np.float64)
    return per_user


def _turned(one: Comparison) -> Comparison:
    """The same comparison with the other system first."""
    effect = one.paired
    return replace(
        one,
        first=one.second,
        second=one.first,
        first_mean=one.second_mean,
        second_mean=one.first_mean,
        difference=-one.difference,
        paired=replace(effect, g=-effect.g, low=-effect.high, high=-effect.low),
        unpaired_g=-one.unpaired_g,
    )
