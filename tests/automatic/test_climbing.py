from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from densirank.automatic.climbing import climb

heights = st.lists(st.integers(0, 50), min_size=1, max_size=12, unique=True)


@given(heights=heights, start=st.integers(0, 11))
def test_where_there_is_one_peak_it_is_found(heights: list[int], start: int) -> None:
    ordered = sorted(heights)
    peaked = ordered[::2] + ordered[1::2][::-1]  # up, then down
    ladder = [float(rung) for rung in range(len(peaked))]
    rung, value = climb(ladder, start, lambda rung: peaked[int(rung)])
    assert (value, peaked[int(rung)]) == (max(peaked), max(peaked))


@given(heights=heights, start=st.integers(0, 11), looks=st.integers(0, 5))
def test_it_ends_no_lower_than_it_starts_and_values_only_the_start_without_time(
    heights: list[int], start: int, looks: int
) -> None:
    ladder = [float(rung) for rung in range(len(heights))]
    valued: list[float] = []

    def value(rung: float) -> float:
        valued.append(rung)
        return heights[int(rung)]

    _, highest = climb(ladder, start, value, lambda: len(valued) <= looks)
    assert highest == max(heights[int(rung)] for rung in valued)
    assert len(valued) <= 1 + looks
    assert valued[0] == min(start, len(heights) - 1)
