"""A figure of a search: the validation metric of each trial against each searched setting."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from densirank.dimensions import Dimension, Range
from densirank.plotting import BLUE, GREY, VERMILION, make_plain, write_png
from densirank.search.study import Study
from densirank.search.trial import Trial

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS_A_ROW = 3
PANEL_WIDTH, PANEL_HEIGHT = 3.6, 3.0  # inches
MARGIN = 0.04  # share of an axis, on both sides


def draw(study: Study, path: Path) -> None:
    """Write the figure as a PNG file: one panel per setting, with a shared y axis."""
    from matplotlib.figure import Figure

    columns = min(PANELS_A_ROW, len(study.space))
    rows = math.ceil(len(study.space) / columns)
    size = (max(2, columns) * PANEL_WIDTH, rows * PANEL_HEIGHT + 0.5)
    figure = Figure(size, layout="constrained")
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    panels = grid.flatten().tolist()
    for panel, (key, dimension) in zip(panels, study.space.items(), strict=False):
        _draw_panel(panel, key, dimension, study)
    for row in grid:
        row[0].set_ylabel("validation nDCG@20")
    for unused in panels[len(study.space) :]:
        unused.set_visible(False)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    write_png(figure, path)


def _draw_panel(panel: Axes, key: str, dimension: Dimension, study: Study) -> None:
    best = study.best
    pruned = [trial for trial in study.trials if trial.status == "pruned"]
    finished = [t for t in study.trials if t.status == "finished" and t is not best]
    where = _places(panel, dimension)

    def scatter(trials: list[Trial], **style: Any) -> None:
        if trials:
            places = [where(trial.settings[key]) for trial in trials]
            panel.scatter(places, [trial.ndcg for trial in trials], **style)

    scatter(pruned, label="stopped early", marker="x", s=26, color=GREY, linewidths=1.2)
    scatter(finished, label="finished", marker="o", s=30, color=BLUE, alpha=0.8, linewidths=0)
    scatter([best], label=f"best, {best.ndcg:.4f}", marker="*", s=180, color=VERMILION, zorder=3)
    panel.set_xlabel(key)
    make_plain(panel)


def _places(panel: Axes, dimension: Dimension) -> Callable[[Any], float]:
    """Set up the x axis of a setting; returns the function from a value to its position."""
    from matplotlib.ticker import LogLocator

    if isinstance(dimension, Range) and dimension.log:
        room = (dimension.high / dimension.low) ** MARGIN
        panel.set_xscale("log")
        panel.set_xlim(dimension.low / room, dimension.high * room)
        panel.minorticks_off()
        decades = math.log10(dimension.high / dimension.low)
        leading = (1, 2, 5) if decades <= 1.5 else (1, 3) if decades <= 3 else (1,)
        panel.xaxis.set_major_locator(LogLocator(subs=leading))
        panel.xaxis.set_major_formatter("{x:g}")
        return float
    if isinstance(dimension, Range):
        room = (dimension.high - dimension.low) * MARGIN
        panel.set_xlim(dimension.low - room, dimension.high + room)
        return float
    panel.set_xlim(-0.5, len(dimension.values) - 0.5)
    names = ["none" if value is None else str(value) for value in dimension.values]
    panel.set_xticks(range(len(names)), names)
    return dimension.values.index
