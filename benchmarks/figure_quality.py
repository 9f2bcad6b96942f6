"""Draw the published test figures and ours, from the records, as one picture.

python benchmarks/figure_quality.py --out docs/quality.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RECORDS = Path(__file__).parent / "records"
PUBLISHED = {  # nDCG@20 on test, Togashi et al. 2021, Table 1
    "gowalla": {
        "NGCF": 0.1325,
        "Mult-VAE": 0.1340,
        "ENMF": 0.1306,
        "LightGCN": 0.1551,
        "DREGN-CF": 0.1551,
        "PDE-LGCN": 0.1575,
        "WD-LGCN": 0.1567,
    },
    "yelp2018": {
        "NGCF": 0.0474,
        "Mult-VAE": 0.0458,
        "ENMF": 0.0515,
        "LightGCN": 0.0532,
        "DREGN-CF": 0.0564,
        "PDE-LGCN": 0.0582,
        "WD-LGCN": 0.0594,
    },
}
TITLES = {"gowalla": "Gowalla", "yelp2018": "Yelp2018"}
GREY, BLUE = "#8a8a8a", "#0072b2"


def ours(dataset: str) -> dict[str, float]:
    """The mean over seeds of our own runs, and the run with no options at all."""
    figures = {}
    for method, search in (("pde-lgcn", "fifth"), ("wd-lgcn", "whitened")):
        record = json.loads((RECORDS / f"quality-{dataset}-{method}-{search}.json").read_text())
        runs = [run for run in record["runs"] if run.get("precision") != "float32"]
        figures[f"densirank {method}"] = mean(run["ndcg@20"] for run in runs)
    points = json.loads((RECORDS / f"time-{dataset}-cpu.json").read_text())["ours"]
    (default,) = (point for point in points if point["settings"] == {"iterations": 100})
    figures["densirank, no options"] = default["ndcg@20"]
    return figures


def main() -> None:
    """Two panels of dots: what was published, and what this library reaches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out

    figure, panels = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for panel, (dataset, published) in zip(panels, PUBLISHED.items(), strict=True):
        rows = published | ours(dataset)
        for place, (name, value) in enumerate(reversed(rows.items())):
            colour = BLUE if name.startswith("densirank") else GREY
            panel.axhline(place, color="#e6e6e6", linewidth=1, zorder=0)
            panel.plot(value, place, "o", color=colour)
            panel.annotate(
                f"{value:.4f}".lstrip("0"), (value, place), (6, 0), textcoords="offset points",
                va="center", color=colour, fontsize=9,
            )  # fmt: skip
        panel.set_yticks(range(len(rows)), list(reversed(rows)))
        low, high = min(rows.values()), max(rows.values())
        panel.set_xlim(low - 0.25 * (high - low), high + 0.2 * (high - low))
        panel.locator_params(axis="x", nbins=5)
        panel.set_xlabel("nDCG@20 on test (axis does not start at 0)")
        panel.set_title(TITLES[dataset])
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Grey: published by Togashi et al. 2021. Blue: this library.", fontsize=10)
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    main()
