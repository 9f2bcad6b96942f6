from __future__ import annotations

from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from densirank.errors import InputError
from densirank.world import World


@given(size=st.integers(1, 9), n_rows=st.integers(0, 50))
def test_every_row_has_one_owner(size: int, n_rows: int) -> None:
    owned = [row for rank in range(size) for row in World(rank, size).own(n_rows)]
    assert owned == list(range(n_rows))
    assert len(World(0, size).own(n_rows)) == -(-n_rows // size)


def test_a_world_of_one_says_everything_to_itself() -> None:
    world, rows = World(), torch.arange(6.0).view(3, 2)
    assert world.own(7) == range(7)
    assert world.any(True)
    assert not world.any(False)
    for same in (
        world.sum_(rows),
        world.gathered(rows),
        world.collected(rows),
        world.exchange(rows, [3], [3]),
    ):
        assert same is rows
    assert world.texts("topic", "text") == ["text"]
    world.require_same({"data": "any"})
    world.wait()


def test_a_process_that_was_given_something_else_is_named() -> None:
    texts = ['{"data": "a", "seed": 0}', '{"data": "a", "seed": 0}', '{"data": "a", "seed": 1}']
    with (
        mock.patch.object(World, "texts", return_value=texts),
        pytest.raises(InputError, match="process 2 differs from process 0 in its seed: 1, not 0"),
    ):
        World(1, 3).require_same({})
