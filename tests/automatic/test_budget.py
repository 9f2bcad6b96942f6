from __future__ import annotations

import pytest

from densirank.automatic.budget import Clock, seconds_of
from densirank.errors import InputError


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("60s", 60), ("2m", 120), ("1.5h", 5400), ("45", 45), (".5", 0.5), (" 3 MIN ", 180), (7, 7)],
)
def test_a_budget_is_said_in_seconds_minutes_or_hours(said: str | float, seconds: float) -> None:
    assert seconds_of(said) == seconds


@pytest.mark.parametrize(
    "said", ["", "s", "soon", "-5", "0", "0s", "1d", "60 s s", "1e3", "nan", "inf", "1,5h", -1, 0]
)
def test_what_is_no_time_is_refused_by_its_words(said: str | float) -> None:
    with pytest.raises(InputError, match="a budget is a time above 0") as refusal:
        seconds_of(said)
    assert repr(str(said)) in str(refusal.value)


def test_what_is_left_of_a_budget_falls_below_zero() -> None:
    clock = Clock(1e-9)
    before, left, after = clock.elapsed, clock.left, clock.elapsed
    assert left < 0
    assert before <= clock.budget - left <= after
