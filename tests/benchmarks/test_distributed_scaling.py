"""What two real processes send, beside what the formulas say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributed_scaling import Task, run
from powerlaw import Size
from step_costs import Layout, collectives, sent


def test_two_processes_send_what_the_formula_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    task = Task("wd-lgcn", Size(3000, 2000, 30_000), 500, batch_users=200, steps=5)
    seen = run(task, processes=2, at_most=300)
    case = replace(
        task.case,
        batch_pairs=2 * seen.batch_pairs,
        batch_items=seen.batch_items,
        near_items=seen.near_items,
    )
    assert seen.sent_bytes == pytest.approx(sum(sent(case, Layout(2)).values()), rel=0.02)
    assert seen.collectives == collectives(case, Layout(2))
