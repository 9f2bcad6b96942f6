from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.distributed.group import TIMEOUT_VARIABLE, World, joined
from densirank.errors import InputError


@given(size=st.integers(1, 9), n_rows=st.integers(0, 50))
def test_every_row_has_one_owner(size: int, n_rows: int) -> None:
    owned = [row for rank in range(size) for row in World(rank, size).own(n_rows)]
    assert owned == list(range(n_rows))
    assert len(World(0, size).own(n_rows)) == -(-n_rows // size)


def test_processes_hear_what_the_others_say(scene: Callable[[str], Any]) -> None:
    scene("meeting")


def test_without_torchrun_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with joined("cpu") as world:
        assert (world.rank, world.size, world.together) == (0, 1, False)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf"])
def test_a_time_out_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(TIMEOUT_VARIABLE, text)
    with pytest.raises(InputError, match="is a number of seconds above 0"), joined("cpu"):
        pass
