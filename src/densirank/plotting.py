"""Shared parts of the figures: colours, the style of a panel, PNG files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from densirank.files import written_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, GREY, VERMILION = "#0072b2", "#7f7f7f", "#d55e00"  # from the palette of Okabe and Ito


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def make_plain(panel: Axes) -> None:
    """Draw a pale grid behind the data and no box around it."""
    panel.grid(color="#e6e6e6", linewidth=0.8)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def write_png(figure: Figure, path: Path) -> None:
    """Write a figure to a PNG file."""
    with written_atomically(path) as temporary:
        figure.savefig(temporary, format="png", dpi=130)
