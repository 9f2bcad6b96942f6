"""``torchrun -m densirank fit`` as people type it; a killed process is started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from densirank import Ranker, load, read
from densirank.data.synthetic import planted
from densirank.distributed.folder import FitFolder
from densirank.distributed.group import World
from densirank.errors import InputError
from densirank.storage import CHECKPOINT, MANIFEST, SPLIT_CHECKPOINT, TRAINING_LOG

ITERATIONS = 40
UNSTEADY = "not reliable beside other work yet; set DENSIRANK_PROCESSES=1 to run it"
TIME_LIMIT = 90


def _log(folder: Path) -> Path:
    data = planted(60, 40, items_per_user=6, test_items_per_user=1, seed=3).train
    rows = [f"{user} {' '.join(map(str, data.items_of(user)))}" for user in range(data.n_users)]
    path = folder / "train.txt"
    path.write_text("\n".join(rows) + "\n")
    return path


def _rank_of(process: int) -> str | None:
    try:
        variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    found = dict(variable.partition(b"=")[::2] for variable in variables)
    return found.get(b"RANK", b"").decode() or None


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")
@pytest.mark.skipif("DENSIRANK_PROCESSES" not in os.environ, reason=UNSTEADY)
def test_a_killed_process_costs_no_more_than_the_steps_since_the_last_checkpoint(
    tmp_path: Path,
) -> None:
    train, out = _log(tmp_path), tmp_path / "model"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node=2", "--max-restarts=3", "-m", "densirank", "fit", str(train)]
    command += ["--out", str(out), "--method", "wd-mf", "--device", "cpu", "--checkpoint-every"]
    command += ["0", "--set", f"iterations={ITERATIONS}", "--set", "dim=8"]
    command += ["--set", "users_per_batch=30"]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(
            command, stderr=said, stdout=said, env=os.environ | {"OMP_NUM_THREADS": "1"}
        )
        try:
            killed_at = _kill_one(run, out)
            assert run.wait(TIME_LIMIT) == 0, (tmp_path / "said").read_text()
        finally:
            run.kill()

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
    reported = [json.loads(line)["iteration"] for line in lines]
    for iteration in range(10, ITERATIONS + 1, 10):
        once = reported.count(iteration) == 1
        assert once or (reported.count(iteration) == 2 and iteration >= killed_at)
    assert not (out / SPLIT_CHECKPOINT).exists()


def _kill_one(run: subprocess.Popen[bytes], out: Path) -> int:
    """Kill process 1 with -9 once some checkpoints are written; how many there were."""
    deadline = time.monotonic() + TIME_LIMIT
    while time.monotonic() < deadline and run.poll() is None:
        names = os.listdir(out / SPLIT_CHECKPOINT) if (out / SPLIT_CHECKPOINT).is_dir() else []
        saved = max((int(name) for name in names if name.isdigit()), default=0)
        if saved >= 15:
            (victim,) = [child for child in _children(run.pid) if _rank_of(child) == "1"]
            os.kill(victim, signal.SIGKILL)
            return saved
        time.sleep(0.005)
    raise AssertionError("no checkpoint was written in time")


def test_a_finished_model_is_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    assert not FitFolder(tmp_path, World.alone()).prepare(resume=True)
    assert FitFolder(tmp_path, World.alone()).prepare(resume=False)


def test_a_new_run_removes_what_an_old_one_left_and_a_restarted_one_does_not(
    tmp_path: Path,
) -> None:
    for attempt, remains in ((1, True), (0, False)):
        left = tmp_path / SPLIT_CHECKPOINT / "3"
        left.mkdir(parents=True, exist_ok=True)
        (tmp_path / TRAINING_LOG).touch()
        world = World(backend="gloo", attempt=attempt)
        assert FitFolder(tmp_path, world).prepare(resume=False)
        assert left.exists() == remains
        assert (tmp_path / TRAINING_LOG).exists() == remains


@pytest.mark.parametrize(
    ("left", "world", "how"),
    [
        (SPLIT_CHECKPOINT, World.alone(), "under torchrun"),
        (CHECKPOINT, World(backend="gloo"), "without torchrun"),
    ],
)
def test_a_run_is_resumed_the_way_it_was_begun(
    tmp_path: Path, left: str, world: World, how: str
) -> None:
    (tmp_path / left).mkdir()
    with pytest.raises(InputError, match=f"was written by a run {how}: resume it {how}"):
        FitFolder(tmp_path, world).prepare(resume=True)
