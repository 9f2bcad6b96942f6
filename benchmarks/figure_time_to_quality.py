"""Draw quality against seconds of training, from records of time_to_quality.py.

python benchmarks/figure_time_to_quality.py gowalla.json yelp2018.json --out time_to_quality.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

PUBLISHED = {"gowalla": (301, 0.1567), "yelp2018": (350, 0.0594)}
"""WD-LGCN's seconds on one P100 and nDCG@20 on test, Togashi et al. 2021."""

IN_SIGHT = 0.8
"""Peers below this share of the published quality are named, not drawn: the axis would be lost."""

TITLES = {"gowalla": "Gowalla", "yelp2018": "Yelp2018"}
GREY, BLUE = "#8a8a8a", "#0072b2"


def figures(seconds: float, ndcg: float) -> str:
    """Both coordinates of a point, as tables print them."""
    return f"{ndcg:.4f}".lstrip("0") + f" in {seconds:.{0 if seconds >= 10 else 1}f} s"


def label(
    panel: Axes, text: str, point: tuple[float, float], offset: tuple[int, int], colour: str
) -> None:
    """Text beside a point: left or right of it, or else above or below."""
    panel.annotate(
        text, point, offset, textcoords="offset points", fontsize=9, color=colour, va="center",
        ha=("center", "left", "right")[np.sign(offset[0])],
    )  # fmt: skip


Curve = tuple[list[float], list[float]]


def curves(record: dict[str, Any]) -> tuple[Curve, Curve]:
    """(seconds, nDCG) of our fits with the item–item filter, and of those without."""
    found: tuple[Curve, Curve] = (([], []), ([], []))
    for point in sorted(record["ours"], key=lambda point: point["settings"]["iterations"]):
        times, values = found[0 if "filter_weight" in point["settings"] else 1]
        times.append(point["seconds"])
        values.append(point["ndcg@20"])
    return found


def draw(panel: Axes, dataset: str, records: list[dict[str, Any]]) -> None:
    """One panel: our curves, the peers' points, and what was published."""
    seconds, target = PUBLISHED[dataset]
    drawn, below = [float(seconds)], []
    for record in records:
        with_filter, plain = curves(record)
        drawn += plain[0]
        panel.plot(*plain, "o-", color=BLUE)
        gpu = record["environment"]["gpu"]
        end = (plain[0][-1], plain[1][-1])
        where = gpu or f"{record['environment']['threads']} CPU cores"
        text = f"densirank, {where}\n{figures(*end)}"
        label(panel, text, end, (0, 18) if gpu else (9, -28), BLUE)
        if with_filter[0]:
            drawn += with_filter[0]
            panel.plot(*with_filter, "o--", color=BLUE, markerfacecolor="white")
            best = max(zip(*with_filter, strict=True), key=lambda point: point[1])
            label(panel, f"with filter\n{figures(*best)}", best, (-9, 4), BLUE)
        for peer in record["peers"].values():
            if peer == "failed":
                continue
            point = (peer["seconds"], peer["ndcg@20"])
            if point[1] < IN_SIGHT * target:
                below.append(f"{peer['method']} {figures(*point)}")
                continue
            drawn.append(point[0])
            panel.plot(*point, "s", color="black")
            label(panel, f"{peer['method']}\n{figures(*point)}", point, (-9, -16), "black")
    panel.axhline(target, color=GREY, linewidth=1, linestyle="--", zorder=0)
    panel.plot(seconds, target, "D", color="white", markeredgecolor=GREY)
    text = f"WD-LGCN as published\n{figures(seconds, target)} on a P100"
    label(panel, text, (seconds, target), (0, 18), GREY)
    if below:
        panel.text(0.02, 0.02, "below: " + ", ".join(below), transform=panel.transAxes, fontsize=9)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.margins(y=0.3)
    panel.set_xlim(min(drawn) / 3, 6 * max(drawn))  # room for the labels
    panel.set_xlabel("seconds of training")
    panel.set_title(TITLES[dataset])
    panel.spines[["top", "right"]].set_visible(False)


def main() -> None:
    """One panel a data set, in the order the records are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()

    records: dict[str, list[dict[str, Any]]] = {}
    for path in given.records:
        record = json.loads(path.read_text(encoding="utf-8"))
        records.setdefault(record["dataset"], []).append(record)
    size = (6 * len(records), 4.5)
    figure, panels = plt.subplots(
        1, len(records), figsize=size, layout="constrained", squeeze=False
    )
    for panel, (dataset, own) in zip(panels[0], records.items(), strict=True):
        draw(panel, dataset, own)
    panels[0][0].set_ylabel("nDCG@20 on test")
    figure.savefig(given.out, dpi=130)


if __name__ == "__main__":
    main()
