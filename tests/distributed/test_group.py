from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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


def test_processes_hear_what_the_others_say(
    tmp_path: Path, scene: Callable[[str, Path], str]
) -> None:
    scene("words", tmp_path)


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


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_finds_no_others_says_so_and_ends(tmp_path: Path, rank: int) -> None:
    """Rank 0 waits for the other in vain; rank 1 knocks where nobody is."""
    environment = os.environ | {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29" + str(os.getpid() % 900 + 100),
        TIMEOUT_VARIABLE: "1",
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-m", "densirank", "fit", "none.txt", "--out", str(tmp_path / "model")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert f"process {rank} of 2 did not meet the others at 127.0.0.1:29" in done.stderr
    assert "within 1 s" in done.stderr
    assert "Traceback" not in done.stderr
