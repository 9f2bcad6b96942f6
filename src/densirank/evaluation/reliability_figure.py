"""A picture of reliability: how often items come, against the probability they were given."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from densirank.plotting import BLUE, GREY, VERMILION, make_plain, write_png

if TYPE_CHECKING:
    import polars as pl

STYLES = ((GREY, "x"), (BLUE, "o"), (VERMILION, "s"))


def draw(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write a PNG file with a line for each table of ``Ranker.reliability``, under its name.

    Both axes are logarithmic. Bars are two standard errors; a bin into which nothing fell has no
    place on such an axis, and its line drops out of the picture there.
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
