"""What two real processes send and hold, beside what the formulas say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distributed_scaling import Task, run
from powerlaw import Size
from step_costs import Layout, collectives, sent


@pytest.mark.parametrize("method", ["wd-mf", "wd-lgcn"])
def test_two_processes_send_what_the_formula_says(method: str) -> None:
    task = Task(method, Size(3000, 2000, 30_000), 500, batch_users=200, steps=3)
    seen = run(task, processes=2)
    case = replace(
        task.case,
        batch_pairs=2 * seen.batch_pairs,
        batch_items=seen.batch_items,
        near_items=seen.near_items,
    )
    layout = Layout(ranks=2)
    assert seen.sent_bytes == pytest.approx(sum(sent(case, layout).values()), rel=0.05)
    assert seen.collectives == pytest.approx(collectives(case, layout), abs=2)
