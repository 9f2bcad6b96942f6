from __future__ import annotations

from pathlib import Path
from typing import Any

from densirank import METHODS
from densirank.dimensions import Setting, Space
from densirank.search import Choices, Range, Study, Trial
from densirank.search.figure import draw

SPACE: Space = {
    "dim": Choices((8, 64)),
    "learning_rate": Range(0.01, 1.0, log=True),
    "l2": Range(0.0, 0.1),
    "max_norm": Choices((3.0, None)),
}


def trial(number: int, status: Any, ndcg: float, max_norm: float | None) -> Trial:
    settings: Setting = {"dim": 8, "learning_rate": 0.1 * number, "l2": 0.05, "max_norm": max_norm}
    return Trial(number, settings, status, ndcg, 1, 1, 1.0)


def test_every_trial_that_ranked_anything_is_in_every_panel(
    tmp_path: Path, drawn: list[Any]
) -> None:
    trials = (
        trial(1, "finished", 0.2, 3.0),
        trial(2, "finished", 0.3, None),
        trial(3, "pruned", 0.25, 3.0),
        trial(4, "diverged", 0.0, None),
    )
    draw(Study(METHODS["wd-lgcn"], SPACE, {}, trials), tmp_path / "trials.png")
    assert (tmp_path / "trials.png").read_bytes().startswith(b"\x89PNG")

    panels = [panel for panel in drawn[0].axes if panel.get_visible()]
    assert [panel.get_xlabel() for panel in panels] == list(SPACE)
    expected = {
        "learning_rate": {(0.1, 0.2), (0.2, 0.3), (0.30000000000000004, 0.25)},
        "max_norm": {(0.0, 0.2), (1.0, 0.3), (0.0, 0.25)},
    }
    for panel in panels:
        points = {tuple(at) for dots in panel.collections for at in dots.get_offsets().tolist()}
        assert {ndcg for _, ndcg in points} == {0.2, 0.3, 0.25}
        assert points == expected.get(panel.get_xlabel(), points)
    assert [tick.get_text() for tick in panels[3].get_xticklabels()] == ["3.0", "none"]
    labels = {text.get_text() for text in drawn[0].legends[0].get_texts()}
    assert labels == {"finished", "stopped early", "best, 0.3000"}
