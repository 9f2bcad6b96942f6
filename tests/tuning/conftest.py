from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from densirank.dimensions import Setting
from densirank.tuning.search import Evaluate
from densirank.tuning.trials import Trial

Objective = Callable[[Setting], float]
Judged = Callable[[Objective], Evaluate]


@pytest.fixture
def judged() -> Judged:
    """Trials that are no fits: an objective says at once how good a setting is."""

    def by(objective: Objective) -> Evaluate:
        def evaluate(number: int, setting: Setting, earlier: Sequence[Trial]) -> Trial:
            return Trial(number, setting, "finished", objective(setting), None, None, 0.0)

        return evaluate

    return by
