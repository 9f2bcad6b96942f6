"""The paper's tables as data: their methods, and the published figures of each.

Published figures are recall@20 and nDCG@20 on test, by data set. Tables 1 and 2 are those of
Togashi et al. 2021; where they differ in the last digit (PDE-LGCN on Amazon-Book), so do these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DATASETS: Mapping[str, str] = {
    "gowalla": "Gowalla",
    "yelp2018": "Yelp2018",
    "amazon-book": "Amazon-Book",
    "amazon-book-24k": (
        "Amazon-Book-24k (24,172 of Amazon-Book's users; not comparable with Amazon-Book)"
    ),
}
"""The data sets that are shown, by the names the catalogue knows them by."""


@dataclass(frozen=True)
class Score:
    """Two means over the test users."""

    recall: float
    ndcg: float


@dataclass(frozen=True)
class Row:
    """One line of a table: a method, how the table calls it, and what was published for it."""

    method: str
    label: str
    published: Mapping[str, Score]


@dataclass(frozen=True)
class ResultTable:
    """A table of the paper, or an additional one."""

    name: str
    title: str
    rows: tuple[Row, ...]
    lettered: bool = False
    note: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(row.method for row in self.rows)


def _row(method: str, label: str, *figures: float) -> Row:
    """Figures as they are printed: recall and nDCG on Gowalla, then Yelp2018, then Amazon-Book."""
    scores = (Score(*pair) for pair in zip(figures[::2], figures[1::2], strict=True))
    return Row(method, label, dict(zip(DATASETS, scores, strict=False)))


TABLE_1 = ResultTable(
    "table1",
    "Table 1. Comparison of methods in terms of ranking effectiveness",
    (
        _row("ngcf", "NGCF", 0.1567, 0.1325, 0.0575, 0.0474, 0.0342, 0.0262),
        _row("mult-vae", "Mult-VAE", 0.1644, 0.1340, 0.0589, 0.0458, 0.0413, 0.0306),
        _row("enmf", "ENMF", 0.1512, 0.1306, 0.0628, 0.0515, 0.0344, 0.0272),
        _row("lightgcn", "LightGCN", 0.1828, 0.1551, 0.0651, 0.0532, 0.0421, 0.0324),
        _row("dregn-cf", "DREGN-CF", 0.1828, 0.1551, 0.0685, 0.0564, 0.0506, 0.0395),
        _row("pde-lgcn", "PDE-LGCN", 0.1871, 0.1575, 0.0706, 0.0582, 0.0542, 0.0422),
        _row("wd-lgcn", "WD-LGCN", 0.1859, 0.1567, 0.0719, 0.0594, 0.0580, 0.0466),
    ),
)

TABLE_2 = ResultTable(
    "table2",
    "Table 2. Comparison of overall ranking effectiveness among ablated methods",
    (
        _row("pde-mf-unclipped", "PDE-MF w/o NC", 0.1377, 0.1097, 0.0514, 0.0431, 0.0443, 0.0349),
        _row("pde-mf", "PDE-MF", 0.1512, 0.1224, 0.0647, 0.0525, 0.0504, 0.0398),
        _row("wd-mf", "WD-MF", 0.1465, 0.1161, 0.0607, 0.0513, 0.0476, 0.0401),
        _row("lightgcn-ans", "LightGCN-ANS", 0.1868, 0.1568, 0.0677, 0.0561, 0.0504, 0.0389),
        _row("lightgcn-ans-nc", "LightGCN-ANS-NC", 0.1895, 0.1601, 0.0698, 0.0578, 0.0499, 0.0386),
        _row(
            "pde-lgcn-unclipped", "PDE-LGCN w/o NC", 0.1763, 0.1493, 0.0693, 0.0569, 0.0526, 0.0414
        ),
        _row("pde-lgcn", "PDE-LGCN", 0.1871, 0.1575, 0.0706, 0.0582, 0.0542, 0.0421),
        _row("wd-lgcn", "WD-LGCN", 0.1859, 0.1567, 0.0719, 0.0594, 0.0580, 0.0466),
    ),
    lettered=True,
)

REFERENCE = ResultTable(
    "reference",
    "Reference. Simple methods, and other ways to sample negative items",
    (
        _row("popularity", "Popularity"),
        _row("itemknn", "ItemKNN"),
        _row("ease", "EASE", 0.1765, 0.1467, 0.0657, 0.0552, 0.0710, 0.0567),
        _row("als", "ALS"),
        _row("bpr-mf", "BPR-MF"),
        _row("bpr-mf-popular", "BPR-MF, popular negatives"),
        _row("bpr-mf-dns", "BPR-MF, hardest of a few (DNS)"),
        _row("bpr-mf-ans", "BPR-MF-ANS"),
        _row("lightgcn-popular", "LightGCN, popular negatives"),
        _row("lightgcn-dns", "LightGCN, hardest of a few (DNS)"),
        _row("irgan", "IRGAN"),
        _row("irwgan", "IRWGAN"),
    ),
    note="None of these is in the paper; EASE's published figures are of later comparisons.",
)

BEST_PUBLISHED = (0.1941, 0.1617, 0.0744, 0.0617, 0.0755, 0.0613)

BEST = ResultTable(
    "best",
    "Best. The library's own method beside the best published figures",
    (
        _row("densirank-blind", "densirank, blind to order", *BEST_PUBLISHED),
        _row("densirank-blind-pde", "densirank with PDE, blind to order", *BEST_PUBLISHED),
        _row("densirank", "densirank", *BEST_PUBLISHED),
    ),
    note=(
        "Published, each the highest of its column, all blind to order: Gowalla ChebyCF (recall) "
        "and NESCL (nDCG), Yelp2018 LightGCN-BSL, Amazon-Book SLIM and ChebyCF."
    ),
)

TABLES: Mapping[str, ResultTable] = {
    table.name: table for table in (TABLE_1, TABLE_2, REFERENCE, BEST)
}

LABELS: Mapping[str, str] = {
    row.method: row.label for table in TABLES.values() for row in table.rows
}
"""How each method is called."""
