"""Processes that share a partition each read their own users, and learn what one process learns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from densirank import Interactions, Ranker, load
from densirank.data.columns import Columns
from densirank.data.splitting import split_random_fraction
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.parallel.parquet_log import Log
from densirank.parallel.partition import Partition, Portion
from densirank.parallel.partitioning import write_partition
from densirank.ranker import fit_ranker
from densirank.world import World

VALID = {"mf": None, "random": 0.2, "last": 0.2, "few": 0.5}
METHOD = {"mf": "wd-mf", "random": "wd-lgcn", "last": "wd-mf", "few": "wd-lgcn"}


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Partition:
    folder = tmp_path_factory.mktemp("partition")
    data = planted(40, 30, items_per_user=6, test_items_per_user=1, seed=3).train
    users, items = zip(*data.pairs(), strict=True)
    pl.DataFrame({"user_id": users, "item_id": items}).write_parquet(folder / "log.parquet")
    return write_partition(Log.open(folder / "log.parquet", Columns()), folder / "parts", 3)


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("name", VALID)
def test_a_fit_of_portions_recommends_what_a_fit_of_the_whole_does(
    scene: Callable[[str], Any], name: str, processes: int
) -> None:
    """The scene sees to it that only the first process ever reads what is not its own."""
    folder = Path(scene("portions").folder)
    together = load(folder / f"{name}-{processes}", "cpu")
    whole = Partition.open(folder / name).whole()
    alone = Ranker(METHOD[name], device="cpu", dim=12, iterations=5, users_per_batch=64)
    alone.fit(whole, VALID[name])
    assert together.interactions_.fingerprint == whole.fingerprint
    assert np.array_equal(together.items_.counts, alone.items_.counts)
    assert together.training_["best_iteration"] == alone.training_["best_iteration"]
    for column in ("user_id", "item_id"):
        assert together.recommend(k=10)[column].equals(alone.recommend(k=10)[column])


def test_the_command_fits_a_partition(
    partition: Partition, tmp_path: Path, processes: Callable[..., Any]
) -> None:
    words = ("fit", partition.folder, "--out", tmp_path / "model", "--method", "wd-mf")
    settings = ("--set", "dim=8", "--set", "iterations=5", "--set", "users_per_batch=16")
    done = processes(2, "-m", "densirank", *words, "--device", "cpu", *settings)
    assert done.status == 0, done.stderr
    said = f"40 users, 30 items, {partition.n_pairs} pairs; wd-mf, 2 processes"
    assert said in done.stderr
    alone = Ranker("wd-mf", device="cpu", dim=8, iterations=5, users_per_batch=16)
    expected = alone.fit(partition.whole()).recommend(k=5)["item_id"]
    assert load(tmp_path / "model", "cpu").recommend(k=5)["item_id"].equals(expected)


def test_a_portion_of_one_process_is_the_whole(partition: Partition) -> None:
    portion, whole = Portion.read(partition, World()), partition.whole()
    assert list(portion.pairs()) == list(whole.pairs())
    assert portion.totals == whole.totals
    assert portion.fingerprint == partition.fingerprint
    assert portion.whole().fingerprint == whole.fingerprint


@pytest.mark.parametrize("size", [1, 2, 3, 7, 60])
def test_portions_hold_out_the_random_items_that_the_whole_does(
    partition: Partition, size: int
) -> None:
    """Also where a process has no users, or none with an item to spare."""
    held_out: list[Any] = []
    before = 0
    for rank in range(size):
        users = World(rank, size).own(partition.n_users)
        own = partition.only(users)
        given = (own.indptr, own.items, own.user_ids, own.item_ids, None, None, False)
        portion = Portion(*given, None, partition, users.start, before)
        before += len(own)
        held_out += split_random_fraction(portion, 0.3, seed=4)[1].pairs()
    assert held_out == list(split_random_fraction(partition.whole(), 0.3, seed=4)[1].pairs())


def test_the_item_filter_asks_for_everybodys_rows(partition: Partition) -> None:
    world = World(backend="gloo")
    portion = Portion.read(partition, world)
    ranker = Ranker("wd-mf", device="cpu", filter_weight=0.3)
    with pytest.raises(InputError, match=r"hold only their own: set filter_weight=0"):
        fit_ranker(ranker, portion, world=world)


def test_data_that_are_whole_say_so() -> None:
    data = Interactions.from_pairs([1, 1, 2], [3, 4, 3])
    assert data.whole() is data
    assert not data.partial
    assert data.totals == (2, 2, 3)
