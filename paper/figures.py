"""The paper's two figures: how fast methods learn, and how much n̄ matters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from densirank.errors import InputError
from densirank.files import written_atomically
from paper.planning import EFFICIENCY, SENSITIVE
from paper.records import CurveRecord, Records, SensitivityRecord, Trial
from paper.rows import DATASETS, LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.6, 3.1)
"""Inches of one panel."""
EFFICIENCY_AXES = ("iterations", "seconds of training")
FORMATS = ("png", "svg")
RED = "#D55E00"
GREY = "#555555"


@dataclass(frozen=True)
class Style:
    """The line style of a method: Okabe and Ito colours, plus dashes to distinguish the lines."""

    colour: str
    dashes: str


STYLES: Mapping[str, Style] = {
    "wd-lgcn": Style("#0072B2", "-"),
    "pde-lgcn": Style(RED, "-"),
    "dregn-cf": Style("#009E73", "--"),
    "lightgcn-ans-nc": Style("#CC79A7", "-."),
    "lightgcn-ans": Style("#E69F00", ":"),
}


@dataclass(frozen=True)
class Series:
    """The points of one method on one data set."""

    dataset: str
    method: str
    points: list[list[Any]]


def curves(
    records: Records, datasets: Sequence[str], methods: Sequence[str] | None
) -> list[Series]:
    """[iteration, seconds, nDCG@20 on test] of each method whose curve there is."""
    found = (
        records.find(CurveRecord, dataset, f"{method}-seed0")
        for dataset in datasets
        for method in _wanted(EFFICIENCY, methods)
    )
    return [Series(one.dataset, one.method, [*one.points]) for one in found if one is not None]


def sensitivities(
    records: Records, datasets: Sequence[str], methods: Sequence[str] | None
) -> list[Series]:
    """[n̄, nDCG@20 on validation], n̄ None being no clipping; where training failed, no nDCG@20."""
    found = (
        records.find(SensitivityRecord, dataset, method)
        for dataset in datasets
        for method in _wanted(SENSITIVE, methods)
    )
    return [Series(one.dataset, one.method, _by_norm(one)) for one in found if one is not None]


def _wanted(of_figure: Sequence[str], methods: Sequence[str] | None) -> list[str]:
    return [method for method in of_figure if methods is None or method in methods]


def _by_norm(record: SensitivityRecord) -> list[list[Any]]:
    def norm(trial: Trial) -> float | None:
        value: float | None = record.settings_of(trial)["max_norm"]
        return value

    trials = sorted(record.trials, key=lambda trial: (norm(trial) is None, norm(trial) or 0.0))
    return [[norm(trial), trial.ndcg] for trial in trials]


def draw_efficiency(series: Sequence[Series], folder: Path) -> list[Path]:
    """nDCG@20 against iterations and against seconds, a row of panels for each data set."""
    datasets = list(dict.fromkeys(one.dataset for one in series))
    figure, panels = _panels(len(datasets), len(EFFICIENCY_AXES))
    for row, dataset in zip(panels, datasets, strict=True):
        for place, (panel, axis) in enumerate(zip(row, EFFICIENCY_AXES, strict=True)):
            for one in series:
                if one.dataset == dataset:
                    _draw_curve(panel, one, place)
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter("{x:g}")
            panel.set_ylim(bottom=0)
            panel.set_xlabel(axis)
        row[0].set_ylabel("nDCG@20 on test")
        row[0].set_title(_name(dataset), loc="left")
    handles, labels = _legend(panels)
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    _add_note(figure, datasets)
    return _saved(figure, folder, "figure-efficiency")


def draw_sensitivity(series: Sequence[Series], folder: Path) -> list[Path]:
    """nDCG@20 against n̄: a column of panels for each data set, PDE above WD as in the paper."""
    datasets = list(dict.fromkeys(one.dataset for one in series))
    methods = [method for method in SENSITIVE if any(one.method == method for one in series)]
    figure, panels = _panels(len(methods), len(datasets))
    for panel in panels.flat:
        panel.set_visible(False)  # until there is something in it
    for one in series:
        panel = panels[methods.index(one.method), datasets.index(one.dataset)]
        panel.set_visible(True)
        _draw_norms(panel, one)
        panel.set_title(f"{LABELS[one.method]}, {_name(one.dataset)}", loc="left")
        panel.set_xlabel("upper bound n̄ of the norms")
    for row in panels:
        row[0].set_ylabel("nDCG@20 on validation")
    _add_note(figure, datasets, "The vertical axes do not start at 0")
    return _saved(figure, folder, "figure-sensitivity")


def _draw_curve(panel: Axes, series: Series, place: int) -> None:
    """nDCG@20 against one of the two clocks."""
    style = STYLES[series.method]
    panel.plot(
        [point[place] for point in series.points],
        [point[-1] for point in series.points],
        style.dashes,
        color=style.colour,
        linewidth=1.8,
        label=LABELS[series.method],
    )


def _draw_norms(panel: Axes, series: Series) -> None:
    """nDCG@20 against n̄, and a line for no clipping."""
    found = [point for point in series.points if None not in point]
    norms, ndcgs = [point[0] for point in found], [point[1] for point in found]
    panel.plot(norms, ndcgs, "o-", color=STYLES[series.method].colour, markersize=4)
    panel.set_xticks(range(1, 10))
    for ndcg in (ndcg for norm, ndcg in series.points if norm is None):
        if ndcg is None:
            panel.plot([], [], " ", label="without clipping training fails")
        else:
            panel.axhline(ndcg, color=GREY, linestyle="--", label="without clipping")
        panel.legend(loc="lower center", fontsize="small", handletextpad=0.4)


def _panels(rows: int, columns: int) -> tuple[Figure, Any]:
    """An empty figure with its panels, (rows, columns) of them."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise InputError(
            "figures need matplotlib, which is not installed: pip install 'densirank[paper]'"
        ) from error
    size = (PANEL[0] * columns, PANEL[1] * rows + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    for panel in panels.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#E6E6E6", linewidth=0.8)
        panel.set_axisbelow(True)
    return figure, panels


def _legend(panels: Any) -> tuple[list[Any], list[str]]:
    """Every method that is drawn anywhere, once."""
    handles: dict[str, Any] = {}
    for panel in panels.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    return list(handles.values()), list(handles)


def _name(dataset: str) -> str:
    """What a panel calls a data set."""
    return DATASETS.get(dataset, dataset).partition(" (")[0]


def _add_note(figure: Figure, datasets: Iterable[str], note: str = "") -> None:
    """Below the panels: what is to be known of the data sets in them."""
    titles = (DATASETS.get(dataset, dataset) for dataset in datasets)
    notes = [title.replace(" (", ": ").rstrip(")") for title in titles if "(" in title]
    figure.supxlabel(". ".join([*filter(None, [note]), *notes]), fontsize="small", color=GREY)


def _saved(figure: Figure, folder: Path, name: str) -> list[Path]:
    """The figure as files, the same bytes whenever the records are the same."""
    from matplotlib import rc_context

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{suffix}" for suffix in FORMATS]
    for path, suffix in zip(paths, FORMATS, strict=True):
        dated = {"Date": None} if suffix == "svg" else {"Software": None}
        with written_atomically(path) as temporary, rc_context({"svg.hashsalt": name}):
            figure.savefig(temporary, format=suffix, dpi=150, metadata=dated)
    return paths
