"""Draw quality against seconds, from records of time_to_quality.py.

python benchmarks/figure_time_to_quality.py gowalla.json yelp2018.json --out time_to_quality.png

Our curve shows the best result of any fit after the given number of seconds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

PUBLISHED = {"gowalla": 0.1567, "yelp2018": 0.0594}
"""WD-LGCN's nDCG@20 on test, Togashi et al. 2021."""

IN_SIGHT = 0.8
"""Peers below this share of the published quality are named, not drawn: the axis would be lost."""

TITLES = {"gowalla": "Gowalla", "yelp2018": "Yelp2018"}
GREY, BLUE, GREEN, ORANGE = "#6b6b6b", "#0072b2", "#009e73", "#d55e00"
"""Okabe and Ito colours, safe for colour-blind readers; markers differ as well."""

Place = tuple[float, float]


def place_of(point: dict[str, Any]) -> Place:
    """The coordinates of a point of a record: (seconds, nDCG)."""
    return point["seconds"], point["ndcg@20"]


def best_so_far(points: list[Place]) -> list[Place]:
    """The points that are better than all faster ones, in order of seconds.

    >>> best_so_far([(3, 0.2), (1, 0.1), (2, 0.05)])
    [(1, 0.1), (3, 0.2)]
    """
    best: list[Place] = []
    for seconds, value in sorted(points):
        if not best or value > best[-1][1]:
            best.append((seconds, value))
    return best


def label(panel: Axes, text: str, place: Place, colour: str, *, above: bool) -> None:
    """Text next to a point: above and to the left, or below and to the right."""
    panel.annotate(
        text, place, (-5, 5) if above else (5, -5), textcoords="offset points", fontsize=9,
        color=colour, ha="right" if above else "left", va="bottom" if above else "top",
        path_effects=[withStroke(linewidth=3, foreground="white")],
    )  # fmt: skip


def draw_ours(panel: Axes, record: dict[str, Any], last: float) -> None:
    """The steps of our quality, up to the last second that is shown."""
    gpu = record["environment"]["gpu"]
    colour, marker = (GREEN, "^") if gpu else (BLUE, "o")
    curve = best_so_far([place_of(point) for point in record["ours"]])
    steps = [*curve, (last, curve[-1][1])]
    where = gpu or f"{record['environment']['threads']} CPU cores"
    panel.step(*zip(*steps, strict=True), where="post", color=colour, label=f"densirank, {where}")
    for point in record["ours"]:
        if place_of(point) not in curve:
            continue
        panel.plot(*place_of(point), marker, color=colour)
        name = point["method"].removeprefix("densirank, ")
        label(panel, name, place_of(point), colour, above=True)


def draw_peers(panel: Axes, record: dict[str, Any]) -> list[str]:
    """The peers' points; what is out of sight is said instead."""
    below = []
    for peer in record["peers"].values():
        if peer == "failed":
            continue
        name = peer["method"].removeprefix("implicit ").removesuffix(" factors").replace(",", "")
        if peer["ndcg@20"] < IN_SIGHT * PUBLISHED[record["dataset"]]:
            below.append(f"{name} {peer['ndcg@20']:.4f} in {peer['seconds']:.0f} s")
            continue
        panel.plot(*place_of(peer), "s", color=ORANGE)
        label(panel, name, place_of(peer), ORANGE, above=False)
    return below


def draw(panel: Axes, dataset: str, records: list[dict[str, Any]]) -> None:
    """One panel: our steps, the peers' points, and what was published."""
    points = [point for record in records for point in record["ours"]]
    points += [peer for record in records for peer in record["peers"].values() if peer != "failed"]
    seconds = [point["seconds"] for point in points]
    first, last = min(seconds) / 4, 2 * max(seconds)
    below = []
    for record in records:
        draw_ours(panel, record, last)
        below += draw_peers(panel, record)
    panel.plot([], [], "s", color=ORANGE, label="implicit ALS, by factors")
    panel.axhline(
        PUBLISHED[dataset], color=GREY, linewidth=1, linestyle="--", zorder=0,
        label="WD-LGCN as published",
    )  # fmt: skip
    if below:
        text = "below: " + ", ".join(below)
        panel.text(0.02, 0.02, text, transform=panel.transAxes, fontsize=8, color=GREY)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.margins(y=0.12)
    panel.set_xlim(first, last)
    panel.set_xlabel("seconds until lists can be made")
    panel.set_title(TITLES[dataset])
    panel.grid(color="#e6e6e6", linewidth=0.6)
    panel.set_axisbelow(True)
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
    size = (6 * len(records), 4.8)
    figure, panels = plt.subplots(
        1, len(records), figsize=size, layout="constrained", squeeze=False
    )
    for panel, (dataset, own) in zip(panels[0], records.items(), strict=True):
        draw(panel, dataset, own)
    panels[0][0].set_ylabel("nDCG@20 on test")
    handles, names = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False)
    figure.savefig(given.out, dpi=130)


if __name__ == "__main__":
    main()
