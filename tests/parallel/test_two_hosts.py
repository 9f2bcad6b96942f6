"""A fit by two hosts ends on both, whatever happens to one of them or to the cable."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cable import HOSTS, why_not
from two_hosts import LIMIT, LONG, METHOD, SETTINGS, fit_words

from densirank import Ranker, load, read
from densirank.storage import SPLIT_CHECKPOINT
from densirank.training.sharded_checkpoint import METADATA

TO_END = LIMIT + 15
"""Seconds after which both hosts have ended."""
SILENT = f"error: another process of the run has not answered for {LIMIT} s; "
BROKEN = "error: another process of the run has ended, or the connection to it broke; "
KEPT = "what was trained until the last checkpoint is kept, and --resume goes on from it"
FINISHED = {"undisturbed": 40, "late host": 40, "slow and lossy": 8, "cut and mended": 400}
LOST = {
    "cut": {"near": ([1], SILENT), "far": ([1, -9], SILENT)},
    "far host killed": {"near": ([1], BROKEN)},
    "near host killed": {"far": ([1], BROKEN)},
}


@pytest.fixture(scope="module")
def played(scene: Callable[[str], Any]) -> Path:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    return Path(scene("two_hosts").folder)


def _ended(played: Path, case: str) -> dict[str, dict[str, Any]]:
    ended: dict[str, dict[str, Any]] = json.loads((played / f"{case}.json").read_text())
    return ended


@pytest.mark.parametrize("case", FINISHED)
def test_a_cable_that_works_in_the_end_gives_the_fit_of_one_host(played: Path, case: str) -> None:
    for host, end in _ended(played, case).items():
        assert end["status"] == 0, (played / case / f"{host}.txt").read_text()
        assert end["sentences"] == []
    settings = SETTINGS | {"iterations": FINISHED[case]}
    alone = Ranker(METHOD, device="cpu", **settings)
    alone.fit(read(played / case / "train.txt"))
    together = load(played / case / "model", "cpu")
    for mine, theirs in (
        (together.scorer_.user_vectors, alone.scorer_.user_vectors),
        (together.scorer_.item_vectors, alone.scorer_.item_vectors),
    ):
        assert float((mine - theirs).norm() / theirs.norm()) < 1e-4


@pytest.mark.parametrize("case", LOST)
def test_both_hosts_end_in_time_and_say_why(played: Path, case: str) -> None:
    ended = _ended(played, case)
    for host, (statuses, sentence) in LOST[case].items():
        end = ended[host]
        assert end["status"] in statuses, (played / case / f"{host}.txt").read_text()
        assert end["seconds"] < TO_END
        assert end["sentences"] == [sentence + KEPT]
        assert "Traceback" not in _own_words(played / case / f"{host}.txt")
    assert all(ended[host]["left"] == 0 for host in HOSTS)


@pytest.mark.parametrize("case", LOST)
def test_the_last_checkpoint_is_whole_and_goes_on(
    played: Path, case: str, processes: Callable[..., Any]
) -> None:
    folder = played / case
    (checkpoint,) = (folder / "model" / SPLIT_CHECKPOINT).glob("[0-9]*")
    assert json.loads(json.loads((checkpoint / METADATA).read_text())["state"])["iteration"] > 0
    done = processes(1, *fit_words(folder, LONG), "--resume")
    assert done.status == 0, done.stderr
    assert load(folder / "model", "cpu").training_["iterations"] == LONG
    assert not (folder / "model" / SPLIT_CHECKPOINT).exists()


def _own_words(output: Path) -> str:
    """What the process itself has said, before torchrun says that it has ended."""
    return output.read_text().partition("torch/distributed/elastic")[0]
