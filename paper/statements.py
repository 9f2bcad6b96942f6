"""Published statements on significance, Sections 5.2 and 5.3: p and |g| of nDCG@20, as printed.

The test is called a paired Tukey HSD there, but the p-values look like those of the unpaired one,
whose tables end at ".900"; therefore both tests are shown for comparison.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paper.rows import TABLE_1, TABLE_2, ResultTable


@dataclass(frozen=True)
class Stated:
    """A p-value, as it is printed, and the size of the effect, without its sign."""

    p: str
    g: float


@dataclass(frozen=True)
class Pair:
    """Two methods of one table that the text compares; the first is the one it speaks for."""

    first: str
    second: str
    stated: Mapping[str, Stated]


def _pair(first: str, second: str, *stated: tuple[str, float]) -> Pair:
    """Statements in the order Gowalla, Yelp2018, Amazon-Book."""
    sets = ("gowalla", "yelp2018", "amazon-book")
    return Pair(first, second, {name: Stated(*one) for name, one in zip(sets, stated, strict=True)})


TINY = "< .001"

PAIRS: Mapping[str, tuple[Pair, ...]] = {
    TABLE_1.name: (
        _pair("pde-lgcn", "dregn-cf", (".244", 0.0301), (TINY, 0.0415), (TINY, 0.0520)),
        _pair("wd-lgcn", "dregn-cf", (".528", 0.0197), (TINY, 0.0689), (TINY, 0.1194)),
        _pair("wd-lgcn", "pde-lgcn", (".841", 0.0121), (".209", 0.0341), (TINY, 0.0954)),
    ),
    TABLE_2.name: (
        _pair("pde-lgcn", "lightgcn-ans-nc", (".597", 0.0359), (".900", 0.0165), (TINY, 0.0781)),
        _pair("wd-lgcn", "lightgcn-ans-nc", (".259", 0.0447), (".0576", 0.0388), (TINY, 0.1306)),
        _pair("pde-mf", "wd-mf", (TINY, 0.0597), (".626", 0.0174), (".900", 0.0050)),
        _pair("pde-lgcn", "pde-lgcn-unclipped", (TINY, 0.106), (".636", 0.0335), (".874", 0.0204)),
        _pair("pde-mf", "pde-mf-unclipped", (TINY, 0.116), (TINY, 0.0639), (TINY, 0.0747)),
        _pair("pde-lgcn", "pde-mf", (TINY, 0.283), (TINY, 0.0639), (TINY, 0.0366)),
    ),
}
"""By the table whose methods are tested together, since Tukey's test allows for all of them."""

FAMILIES: Mapping[str, ResultTable] = {table.name: table for table in (TABLE_1, TABLE_2)}
