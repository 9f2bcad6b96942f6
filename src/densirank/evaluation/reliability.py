"""Reliability of probabilities: predicted probabilities against observed frequencies.

Each held-out item is one draw from the density of its user over the unseen items; each item of that
density is one chance. Chances of similar probability are put into a bin. The probabilities of a bin
add up to the expected number of held-out items in it, which is compared with the observed number.
Probabilities in a large catalogue span many powers of ten, and most are tiny, so the bins are cut
on a logarithmic scale such that all have about the same expected number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from densirank.evaluation.held_out import Draws
from densirank.plotting import BLUE, GREY, VERMILION, make_plain, write_png
from densirank.ranking.density import density_blocks
from densirank.scores import Scorer

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]

MAX_USERS = 2_000
"""Held-out users that are used; of more, a fixed random sample."""

DECADES = 20
"""Probabilities below 10^-20 are counted as 10^-20: their expected number is negligible."""

CELLS_PER_DECADE = 50
"""Places per power of ten at which bins can be cut."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """Bins of probability, from the lowest to the highest, each over at least one chance."""

    low: Floats  # (bins,) bounds of p(i|u)
    high: Floats  # (bins,)
    chances: Floats  # (bins,) pairs of a held-out draw and an item with such a probability
    expected: Floats  # (bins,) expected held-out items: Σ p over the chances
    observed: Floats  # (bins,) held-out items in the bin

    @property
    def predicted(self) -> Floats:
        """The mean predicted probability of a chance."""
        return self.expected / self.chances

    @property
    def frequency(self) -> Floats:
        """The share of the chances that were drawn."""
        return self.observed / self.chances

    @property
    def standard_error(self) -> Floats:
        """The standard error of the frequency: the draws are independent, each in one bin."""
        share = self.observed / self.observed.sum()
        error: Floats = np.sqrt(self.observed * (1 - share)) / self.chances
        return error


def reliability(density: Scorer, draws: Draws, bins: int) -> Reliability:
    """Compare a density, the softmax of a scorer, with held-out draws."""
    n_cells = DECADES * CELLS_PER_DECADE
    chances, expected, observed = np.zeros((3, n_cells + 1))  # the first cell is for barred items
    for users, log_p, *_ in density_blocks(density, draws.users, seen=draws.seen):
        own = draws.items.take(users)
        barred = torch.isneginf(log_p)
        cells = (log_p * (CELLS_PER_DECADE / np.log(10))).floor_().clamp_(-n_cells, -1)
        cells.add_(n_cells + 1).masked_fill_(barred, 0)
        drawn = cells[own.row_of_entry, own.columns].long()
        observed += torch.bincount(drawn, minlength=n_cells + 1).cpu().numpy()
        for row_cells, p, n_draws in zip(cells, log_p.exp_(), own.counts.tolist(), strict=True):
            row = row_cells.long()
            chances += n_draws * torch.bincount(row, minlength=n_cells + 1).cpu().numpy()
            mass = torch.bincount(row, weights=p.double(), minlength=n_cells + 1)
            expected += n_draws * mass.cpu().numpy()
    return _in_bins(chances[1:], expected[1:], observed[1:], bins)


def _in_bins(chances: Floats, expected: Floats, observed: Floats, bins: int) -> Reliability:
    """Join neighbouring cells into bins with about the same expected number of draws."""
    before = np.cumsum(expected) - expected / 2
    bin_of_cell = np.minimum((before / expected.sum() * bins).astype(int), bins - 1)
    used = np.flatnonzero(chances)
    _, starts = np.unique(bin_of_cell[used], return_index=True)
    ends = np.append(starts[1:], len(used)) - 1
    edges = 10.0 ** (np.arange(len(chances) + 1) / CELLS_PER_DECADE - DECADES)
    return Reliability(
        edges[used[starts]],
        edges[used[ends] + 1],
        *(np.add.reduceat(cells[used], starts) for cells in (chances, expected, observed)),
    )


STYLES = ((GREY, "x"), (BLUE, "o"), (VERMILION, "s"))


def draw(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write a PNG file with one line per table of ``Ranker.reliability``.

    Both axes are logarithmic. Error bars are two standard errors. An empty bin has no place on a
    logarithmic axis, so its line leaves the panel there.
    """
    from matplotlib.figure import Figure

    figure = Figure((5.0, 4.6), layout="constrained")
    panel = figure.subplots()
    panel.set_xscale("log")
    panel.set_yscale("log", nonpositive="clip")
    marks = [
        value
        for table in tables.values()
        for column in ("predicted", "frequency")
        for value in table[column].to_list()
        if value > 0
    ]
    ends = (min(marks) / 2, min(1.0, max(marks) * 2))
    panel.plot(ends, ends, color="#b0b0b0", linewidth=1, linestyle="--", label="as predicted")
    for (name, table), (colour, marker) in zip(tables.items(), STYLES, strict=False):
        panel.errorbar(
            table["predicted"].to_numpy(),
            table["frequency"].to_numpy(),
            2 * table["standard_error"].to_numpy(),
            label=name,
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.2,
            capsize=2,
        )
    panel.set_xlim(ends)
    panel.set_ylim(ends)
    panel.set_aspect("equal")
    panel.set_xlabel("predicted probability of an item")
    panel.set_ylabel("how often it was the held-out item")
    make_plain(panel)
    panel.legend(frameon=False)
    write_png(figure, path)
