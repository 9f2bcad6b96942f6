"""Recommendations for everybody: the same file however often the run was stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from densirank import Ranker, load
from densirank.errors import InputError, StorageError
from densirank.parallel.recommend_all import Parts
from densirank.storage import model_fingerprint

PAIRS = [(f"u{u:03d}", f"i{i}") for u in range(95) for i in range(40) if (u * i) % 7 == 1]

KILLED = """
import os, signal, sys
from pathlib import Path
from densirank import load
from densirank.parallel.recommend_all import Parts
from densirank.storage import model_fingerprint

def kill(done):
    if done == 4:
        os.kill(os.getpid(), signal.SIGKILL)

folder, out = map(Path, sys.argv[1:])
Parts(load(folder, "cpu"), model_fingerprint(folder), out, 5, part_users=10).run(kill)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("batch") / "model"
    Ranker("wd-mf", device="cpu", dim=4, iterations=10).fit(PAIRS).save(folder)
    return folder


def batch(folder: Path, out: Path, k: int = 5, part_users: int = 10) -> Parts:
    return Parts(load(folder, "cpu"), model_fingerprint(folder), out, k, part_users=part_users)


class Stop(Exception):
    """Ends a run after some parts."""


def stopped_after(run: Parts, parts: int) -> None:
    def stop(done: int) -> None:
        if done == parts:
            raise Stop

    with pytest.raises(Stop):
        run.run(stop)


def test_the_parts_together_are_what_one_call_gives(folder: Path, tmp_path: Path) -> None:
    run = batch(folder, tmp_path / "recs.parquet")
    heard: list[int] = []
    rows = run.run(heard.append)
    whole = load(folder, "cpu").recommend(k=5)
    assert rows == whole.height
    assert heard == list(range(1, run.n_parts + 1))
    assert_frame_equal(
        pl.read_parquet(tmp_path / "recs.parquet"), whole, rel_tol=1e-5, abs_tol=1e-6
    )
    assert [path.name for path in tmp_path.iterdir()] == ["recs.parquet"]


def test_killed_for_good_and_begun_again_it_writes_the_very_same_file(
    folder: Path, tmp_path: Path
) -> None:
    uninterrupted, out = tmp_path / "whole.parquet", tmp_path / "recs.parquet"
    batch(folder, uninterrupted).run()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), str(out)],
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == -signal.SIGKILL
    assert not out.exists()
    again = batch(folder, out)
    assert again.parts_done() == 4
    kept = {path: path.stat().st_mtime_ns for path in again.folder.glob("part-*")}
    (again.folder / ".part-0000004.parquet.abc.tmp").write_bytes(b"half a part")

    def still_the_old_ones(finished: int) -> None:
        for path, time in kept.items():
            assert path.stat().st_mtime_ns == time

    again.run(still_the_old_ones)
    assert out.read_bytes() == uninterrupted.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recs.parquet", "whole.parquet"]


def test_other_options_begin_anew(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs.parquet"
    stopped_after(batch(folder, out, k=5), 6)
    other = batch(folder, out, k=3)
    assert other.parts_done() == 0
    other.run()
    assert_frame_equal(
        pl.read_parquet(out), load(folder, "cpu").recommend(k=3), rel_tol=1e-5, abs_tol=1e-6
    )


def test_another_model_in_the_same_folder_begins_anew(folder: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "model", tmp_path / "recs.parquet"
    first = Ranker("wd-mf", device="cpu", dim=4, iterations=10).fit(PAIRS)
    first.save(model)
    stopped_after(batch(model, out), 6)
    second = Ranker("wd-mf", device="cpu", dim=4, iterations=10, seed=1).fit(PAIRS)
    second.save(model)
    batch(model, out).run()
    assert_frame_equal(pl.read_parquet(out), second.recommend(k=5), rel_tol=1e-5, abs_tol=1e-6)


def test_a_finished_file_is_replaced_only_by_a_whole_one(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs.parquet"
    batch(folder, out, k=2).run()
    before = out.read_bytes()
    stopped_after(batch(folder, out, k=3), 2)
    assert out.read_bytes() == before


def test_a_folder_of_somebody_else_is_left_alone(folder: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "recs.parquet.parts"
    foreign.mkdir()
    (foreign / "part-0000000.parquet").write_text("years of work")
    with pytest.raises(InputError, match=r"recs.parquet.parts holds other files"):
        batch(folder, tmp_path / "recs.parquet").run()
    assert [path.name for path in foreign.iterdir()] == ["part-0000000.parquet"]


def test_a_damaged_part_is_named_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs.parquet"
    run = batch(folder, out)
    stopped_after(run, 6)
    (run.folder / "part-0000002.parquet").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(StorageError, match=r"recs.parquet.parts is damaged"):
        batch(folder, out).run()
    assert not out.exists()


MEASURED = """
import sys
from pathlib import Path
import numpy as np
import torch
from densirank import Interactions, Ranker
from densirank.parallel.recommend_all import Parts
from densirank.data.vocabulary import Vocabulary
from densirank.fit import Fitted
from densirank.models.base import ItemSide
from densirank.scores import VectorScorer

torch.set_num_threads(1)
users, items, k = 40_000, 100, 50
data = Interactions.from_codes(
    np.arange(users), np.arange(users) % items,
    Vocabulary.from_sorted(np.arange(users)), Vocabulary.from_sorted(np.arange(items)),
)
ranker = Ranker("popularity", device="cpu")
random = torch.Generator().manual_seed(0)
vectors = (torch.randn(count, 4, generator=random) for count in (users, items))
ranker._keep(data, Fitted(VectorScorer(*vectors), ItemSide(data.item_counts)))

def peak():  # of this program alone: getrusage begins with what the parent had
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

folder = Path(sys.argv[1])
ranker.recommend(np.arange(1000), k).write_parquet(folder / "warm")
start = peak()
Parts(ranker, "", folder / "recs.parquet", k, part_users=1000).run()
in_parts = peak()
ranker.recommend(k=k)
print(in_parts - start, peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_memory_is_that_of_a_part_and_not_of_everybody(tmp_path: Path) -> None:
    """Two million rows take some 200 MiB at once; in parts of 50,000 rows a quarter of that.

    Merging reads some parts ahead, more of them while writing is slow: hence the margin.
    """
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(tmp_path)], capture_output=True, text=True, check=True
    )
    in_parts, at_once = map(float, done.stdout.split())
    assert in_parts < 0.75 * at_once
