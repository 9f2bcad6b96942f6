"""Recommendations on a Ray cluster of two workers: the files a single process writes."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.parallel.ray_cluster import PartMaker, pool_size, run_on_ray
from densirank.parallel.recommend_all import Order

HAS_RAY = importlib.util.find_spec("ray") is not None

# A program of its own: Ray leaves threads, and warns of things that are not densirank's.
ON_A_CLUSTER = """
import os, sys
from pathlib import Path
from ray.cluster_utils import Cluster

small = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=small)
cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
os.environ["RAY_ADDRESS"] = cluster.address

import torch
from densirank.parallel.recommend_all import Order
from densirank.parallel.ray_cluster import run_on_ray
from densirank.cli.app import app

torch.set_num_threads(1)
model, out = map(Path, sys.argv[1:])
order = Order(model, out / "approximate.parquet", 5, True, "cpu", part_users=9)
started = order.load()
started.claim_folder()
started.make(2)  # by somebody who was stopped
heard = []
assert run_on_ray(order, order.load(), 2, heard.append) == 200
assert heard == [2, 3, 4, 5], heard
words = ["recommend", model, "--all", "-k", 5, "--engine", "ray", "--workers", 2]
app([*map(str, words), "--out", str(out / "exact.parquet")], standalone_mode=False)
cluster.shutdown()
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ray") / "model"
    world = planted(40, 1500, items_per_user=10, test_items_per_user=1, seed=2)
    ranker = Ranker("wd-mf", device="cpu", dim=8, iterations=10).fit(world.train)
    ranker.build_index("clusters", recall=0.9).save(folder)
    return folder


@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed")
def test_two_workers_write_the_files_that_one_process_writes(model: Path, tmp_path: Path) -> None:
    # Ray adds 65 characters to this folder, and the address of a socket ends at 107.
    with TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as short:
        environment = {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": short}
        running = subprocess.Popen(
            [sys.executable, "-c", ON_A_CLUSTER, str(model), str(tmp_path)],
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
            start_new_session=True,
        )
        try:
            _, said = running.communicate(timeout=240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)  # what Ray may have left, or all of it
    assert running.returncode == 0, said
    assert "200 rows written" in said
    for approximate, part_users in ((True, 9), (False, 10_000)):
        alone = tmp_path / "alone.parquet"
        Order(model, alone, 5, approximate, "cpu", part_users).load().run()
        name = "approximate.parquet" if approximate else "exact.parquet"
        assert (tmp_path / name).read_bytes() == alone.read_bytes(), name
    assert not (tmp_path / "exact.parquet.parts").exists()


def test_what_a_worker_cannot_do_comes_back_as_a_sentence(model: Path, tmp_path: Path) -> None:
    order = Order(model, tmp_path / "out.parquet", 5, False, "cpu")
    (tmp_path / "out.parquet.parts").mkdir()
    answer = PartMaker(order)({"part": np.array([0])})
    assert "a worker of Ray does not find in" in answer["trouble"][0]
    assert not list((tmp_path / "out.parquet.parts").iterdir())


def test_a_cluster_that_is_too_small_is_refused() -> None:
    assert pool_size({"CPU": 4.0}, "CPU", 3) == 3
    with pytest.raises(InputError, match=r"has 4 CPUs .* too few for 5"):
        pool_size({"CPU": 4.0}, "CPU", 5)
    with pytest.raises(InputError, match=r"has 0 GPUs .* too few for 1"):
        pool_size({"CPU": 4.0}, "GPU", None)


def test_without_ray_it_says_what_to_install(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    order = Order(model, tmp_path / "out.parquet", 5, False, "cpu")
    with pytest.raises(InputError, match=r"pip install 'densirank\[ray\]'"):
        run_on_ray(order, order.load())
    assert not list(tmp_path.iterdir())
