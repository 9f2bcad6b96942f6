"""Processes on GPUs talk by NCCL: two of them, here on one GPU, train what one trains alone.

NCCL wants a GPU for each process of a machine. With hosts of different names, which is what
``NCCL_HOSTID`` says, it takes the one GPU for two machines' and goes by the network between them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from forking import free_port

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.parallel.joining import joined
from densirank.ranker import fit_ranker

CASES = {"mf": "wd-mf", "lgcn": "wd-lgcn"}
SETTINGS: dict[str, Any] = {"dim": 12, "iterations": 50, "users_per_batch": 64}
ROUNDING = 1e-3
SECONDS = 150


def fits(folder: Path) -> None:
    """What each process does; the first one writes the vectors."""
    data = planted(150, 90, items_per_user=10, test_items_per_user=3, seed=5).train
    with joined("cuda") as world:
        if world.size > 1:
            assert "nccl" in str(world.backend)
        for name, method in CASES.items():
            ranker = Ranker(method, device="cuda", precision="float32", **SETTINGS)
            fit_ranker(ranker, data, world=world)
            if world.first:
                np.save(folder / f"{name}-{world.size}-users", ranker.scorer_.user_vectors.cpu())
                np.save(folder / f"{name}-{world.size}-items", ranker.scorer_.item_vectors.cpu())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_two_processes_that_talk_by_nccl_train_the_model_of_one(tmp_path: Path) -> None:
    assert _ended(_started(tmp_path, {})) == [0]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    meeting |= {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "NCCL_SOCKET_IFNAME": "lo"}
    two = [
        _started(tmp_path, meeting | {"RANK": rank, "NCCL_HOSTID": f"host-{rank}"})
        for rank in ("0", "1")
    ]
    assert _ended(*two) == [0, 0]

    for name in CASES:
        for side in ("users", "items"):
            alone, together = (np.load(tmp_path / f"{name}-{size}-{side}.npy") for size in (1, 2))
            assert np.linalg.norm(together - alone) < ROUNDING * np.linalg.norm(alone)


def _started(folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    words = [sys.executable, __file__, str(folder)]
    return subprocess.Popen(words, env=os.environ | environment)


def _ended(*processes: subprocess.Popen[bytes]) -> list[int]:
    try:
        return [process.wait(SECONDS) for process in processes]
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    fits(Path(sys.argv[1]))
