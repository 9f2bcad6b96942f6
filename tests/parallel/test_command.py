"""``torchrun -m densirank fit`` as people type it; a killed process is started again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from densirank import Ranker, load, read
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.parallel.fit_folder import FitFolder
from densirank.parallel.store import RunStore
from densirank.storage import CHECKPOINT, MANIFEST, SPLIT_CHECKPOINT, TRAINING_LOG
from densirank.world import World

ITERATIONS = 20
KILLED = Path(__file__).with_name("killed.py")


def _log(folder: Path) -> Path:
    data = planted(60, 40, items_per_user=6, test_items_per_user=1, seed=3).train
    rows = [f"{user} {' '.join(map(str, data.items_of(user)))}" for user in range(data.n_users)]
    path = folder / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


def test_a_killed_process_costs_no_more_than_the_steps_since_the_last_checkpoint(
    tmp_path: Path, torchrun: Callable[..., Any]
) -> None:
    """Killed while it wrote the checkpoint after 12 steps, it goes on from the one after 11."""
    train, out = _log(tmp_path), tmp_path / "model"
    words = ["fit", train, "--out", out, "--method", "wd-mf", "--device", "cpu"]
    words += ["--checkpoint-every", 0, "--set", f"iterations={ITERATIONS}", "--set", "dim=8"]
    words += ["--set", "users_per_batch=30"]
    meeting = ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--local-addr=127.0.0.1")
    done = torchrun("--nproc-per-node=2", "--max-restarts=1", *meeting, KILLED, *words)
    assert done.status == 0, done.stderr
    assert "failed (exitcode: -9) local_rank: 1" in done.stderr
    assert done.stderr.count("error:") == 1

    alone = Ranker("wd-mf", device="cpu", iterations=ITERATIONS, dim=8, users_per_batch=30)
    alone.fit(read(train))
    together = load(out, "cpu")
    assert together.training_["processes"] == 2
    for mine, theirs in (
        (together.scorer_.user_vectors, alone.scorer_.user_vectors),
        (together.scorer_.item_vectors, alone.scorer_.item_vectors),
    ):
        assert float((mine - theirs).norm() / theirs.norm()) < 1e-5
    lines = (out / TRAINING_LOG).read_text().splitlines()
    assert [json.loads(line)["iteration"] for line in lines] == [10, 20]
    assert not (out / SPLIT_CHECKPOINT).exists()


def test_a_finished_model_is_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    assert not FitFolder(tmp_path, World()).prepare(resume=True)
    assert FitFolder(tmp_path, World()).prepare(resume=False)


def test_a_new_run_removes_what_an_old_one_left_and_a_restarted_one_does_not(
    tmp_path: Path,
) -> None:
    world = World(backend="gloo", run=RunStore(dist.HashStore(), 1.0))  # type: ignore[attr-defined]
    for begun in (False, True):
        left = tmp_path / SPLIT_CHECKPOINT / "3"
        left.mkdir(parents=True, exist_ok=True)
        (tmp_path / TRAINING_LOG).touch()
        assert FitFolder(tmp_path, world).prepare(resume=False)
        assert left.exists() == begun
        assert (tmp_path / TRAINING_LOG).exists() == begun


@pytest.mark.parametrize(
    ("left", "world", "how"),
    [
        (SPLIT_CHECKPOINT, World(), "under torchrun"),
        (CHECKPOINT, World(backend="gloo"), "without torchrun"),
    ],
)
def test_a_run_is_resumed_the_way_it_was_begun(
    tmp_path: Path, left: str, world: World, how: str
) -> None:
    (tmp_path / left).mkdir()
    with pytest.raises(InputError, match=f"was written by a run {how}: resume it {how}"):
        FitFolder(tmp_path, world).prepare(resume=True)
