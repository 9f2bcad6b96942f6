"""Several processes evaluate and recommend as one does, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from densirank import Interactions, Ranker, load
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.fit import Fitted
from densirank.models.base import ItemSide
from densirank.parallel.recommend_all import PART_USERS, Order, Parts
from densirank.scores import VectorScorer
from densirank.storage import model_fingerprint
from densirank.world import World

Run = Callable[..., Any]

TOGETHER = """
import sys
from pathlib import Path
import polars as pl
import torch
from densirank import load
from densirank.parallel.recommend_all import Parts
from densirank.parallel.joining import joined
from densirank.storage import model_fingerprint

torch.set_num_threads(1)
model, test, out = map(Path, sys.argv[1:])
ranker = load(model, "cpu")
held_out = ranker.held_out(pl.read_parquet(test))
with joined("cpu") as world:
    for budget in (1, 20_000, 1_000_000, None):
        alone = held_out.evaluate(ranker.scorer_, 10, budget)
        together = held_out.evaluate(ranker.scorer_, 10, budget, world)
        assert together.summary() == alone.summary(), (budget, together.summary())
        assert (together.users == alone.users).all()
        for name, values in alone.per_user.items():
            assert (together.per_user[name] == values).all(), name
    fingerprint = model_fingerprint(model)
    for part_users in (7, 50):  # 6 parts, and 1: two processes have none then
        target = out / f"{part_users}.parquet"
        batch = Parts(ranker, fingerprint, target, 5, part_users=part_users)
        assert batch.run(world=world) == 200
    test_data = "another" if world.rank == 2 else "one"
    world.require_same({"model": fingerprint, "test data": test_data})
"""


def tied(data: Interactions) -> Ranker:
    """A model whose scores are small whole numbers: most of a list is ties."""
    random = torch.Generator().manual_seed(0)
    users, items = (
        torch.randint(-1, 2, (count, 3), generator=random).float()
        for count in (data.n_users, data.n_items)
    )
    ranker = Ranker("wd-mf", device="cpu")
    return ranker._keep(data, Fitted(VectorScorer(users, items), ItemSide(data.item_counts)))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model of 40 users, and test items."""
    folder = tmp_path_factory.mktemp("small")
    world = planted(40, 60, items_per_user=8, test_items_per_user=5, seed=3)
    tied(world.train).save(folder / "model")
    users, items = zip(*world.test.pairs(), strict=True)
    pl.DataFrame({"user_id": users, "item_id": items}).write_parquet(folder / "test.parquet")
    return folder


def test_three_processes_do_what_one_does(small: Path, tmp_path: Path, processes: Run) -> None:
    script = tmp_path / "together.py"
    script.write_text(TOGETHER)
    done = processes(3, script, small / "model", small / "test.parquet", tmp_path)
    assert done.status != 0
    assert done.stderr.count("process 2 differs from process 0 in its test data: 'another'") == 1
    fingerprint = model_fingerprint(small / "model")
    for part_users in (7, 50):
        alone = tmp_path / "alone.parquet"
        ranker = load(small / "model", "cpu")
        Parts(ranker, fingerprint, alone, 5, part_users=part_users).run()
        assert (tmp_path / f"{part_users}.parquet").read_bytes() == alone.read_bytes()
    assert not list(tmp_path.glob("*.parts"))


def test_the_command_goes_on_where_one_process_was_stopped(tmp_path: Path, processes: Run) -> None:
    n_users = 2 * PART_USERS + 500
    users = np.arange(n_users)
    tied(Interactions.from_pairs(users, users % 90)).save(tmp_path / "model")
    order = Order(tmp_path / "model", tmp_path / "alone.parquet", 3, False, "cpu")
    order.load().run()
    out = tmp_path / "together.parquet"
    stopped = Order(tmp_path / "model", out, 3, False, "cpu").load()
    stopped.claim_folder()
    stopped.make(1)
    words = ("recommend", order.model, "--all", "-k", 3, "--out", out, "--device", "cpu")
    done = processes(2, "-m", "densirank", *words)
    assert done.status == 0, done.stderr
    assert "1 of 3 parts exist already" in done.stderr
    assert done.stderr.count("61,500 rows written") == 1
    assert out.read_bytes() == order.target.read_bytes()
    assert not stopped.folder.exists()


def test_a_bad_command_gets_one_sentence_and_a_status_and_writes_nothing(
    small: Path, tmp_path: Path, processes: Run
) -> None:
    words = ("evaluate", small / "model", tmp_path / "nothing.parquet", "--device", "cpu")
    done = processes(2, "-m", "densirank", *words)
    assert done.status != 0
    assert done.stderr.count("there is no file") == 1
    assert done.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("size", [1, 2, 3, 50])
def test_every_part_has_one_process(small: Path, tmp_path: Path, size: int) -> None:
    ranker = load(small / "model", "cpu")
    batch = Parts(ranker, "", tmp_path / "out.parquet", part_users=3)
    shares = [batch.own(World(rank, size)) for rank in range(size)]
    assert sorted(part for share in shares for part in share) == list(range(batch.n_parts))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_a_process_that_sees_another_folder_or_model_says_so(small: Path, tmp_path: Path) -> None:
    ranker = load(small / "model", "cpu")
    first = Parts(ranker, "a model", tmp_path / "out.parquet")
    with pytest.raises(InputError, match=r"process 1 does not find in .*same file system"):
        first.check_folder("process 1")
    first.claim_folder()
    first.check_folder("process 1")
    with pytest.raises(InputError, match="process 1 does not find"):
        Parts(ranker, "another", tmp_path / "out.parquet").check_folder("process 1")


def test_one_process_alone_needs_no_torchrun(small: Path, tmp_path: Path) -> None:
    ranker = load(small / "model", "cpu")
    held_out = ranker.held_out(pl.read_parquet(small / "test.parquet"))
    by_hand = held_out.tally(ranker.scorer_, held_out.users, 10).evaluation(10)
    assert held_out.evaluate(ranker.scorer_, 10).summary() == by_hand.summary()
    heard: list[int] = []
    parts = Parts(ranker, "", tmp_path / "out.parquet", k=5, part_users=9)
    assert parts.run(heard.append) == 200
    assert heard == [1, 2, 3, 4, 5]
