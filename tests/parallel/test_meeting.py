"""Processes find those of their own attempt, and say so when they find nobody."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from densirank.errors import InputError
from densirank.parallel.joining import joined
from densirank.parallel.meeting import interface_towards
from densirank.world import TIMEOUT_VARIABLE


def test_processes_that_are_started_again_do_not_take_the_dead_for_the_living(
    scene: Callable[[str], Any],
) -> None:
    """Whoever comes first, and though the store still has what was left there before."""
    again = scene("meeting")
    ended = json.loads(Path(again.folder, "ended.json").read_text())
    assert ended == [[1, -9], [0, 0], [0, 0]], again.stderr


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_finds_no_others_says_so_and_ends(
    tmp_path: Path, rank: int, perform: Callable[..., Any]
) -> None:
    """Rank 0 waits for the other in vain; rank 1 knocks where nobody is."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        if rank == 0:
            taken.close()  # to it
        environment = {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            TIMEOUT_VARIABLE: "1",
        }
        words = ("-m", "densirank", "fit", "none", "--out", tmp_path / "model")
        done = perform("python", *words, **environment)
    assert done.status == 1
    assert f"process {rank} of 2 did not meet the others at 127.0.0.1:{port}" in done.stderr
    assert "within 1 s" in done.stderr
    assert "Traceback" not in done.stderr


def test_processes_that_nobody_told_where_to_meet_ask_for_torchrun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_PORT", raising=False)
    with pytest.raises(InputError, match="MASTER_PORT is not: start several processes with"):
        joined("cpu").__enter__()


def test_a_machine_that_cannot_resolve_where_it_is_met_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(host: str, *_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} is not known")

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "bare-container")
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(InputError, match="'bare-container', which this machine cannot resolve"):
        joined("cpu").__enter__()


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for its network interfaces")
def test_the_interface_towards_this_machine_is_the_loopback() -> None:
    assert interface_towards("127.0.0.1", 1) == "lo"
    assert interface_towards("no.such.host.invalid", 1) is None
