from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from densirank.errors import InputError
from densirank.parallel.joining import joined
from densirank.world import TIMEOUT_VARIABLE


def test_processes_hear_what_the_others_say(scene: Callable[[str], Any]) -> None:
    scene("meeting")


def test_without_torchrun_there_is_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    with joined("cpu") as world:
        assert (world.rank, world.size, world.sharded) == (0, 1, False)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "inf"])
def test_a_time_out_is_a_number_of_seconds(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(TIMEOUT_VARIABLE, text)
    with pytest.raises(InputError, match="is a number of seconds above 0"), joined("cpu"):
        pass
