"""What several processes do in the tests.

A script of its own, which loads everything once and forks as often as it needs processes: a test
run has threads by then, which a fork would lose. It plays what it is asked for, a line of JSON each
(see :class:`Wish`), and answers with the status of each, until nobody can ask any more:

- ``scene NAME FOLDER``: one of the scenes below;
- ``run N WORDS``: where torchrun would say ``--nproc-per-node=N WORDS``;
- ``torchrun WORDS``: torchrun's own agent, whose processes are forked from it, not started anew;
- ``python WORDS``: what the interpreter would do with the words, in one process.

No process lives longer than ``ranks.PATIENCE``.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import torch._dynamo  # with Adam, and at once: every fork would load it
from forking import forked, status_of
from ranks import PATIENCE, apart, lasting_store
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, parse_args
from two_hosts import play_all

import densirank.cli.app  # noqa: F401  (so is this)
from densirank import Interactions, Ranker
from densirank.data.synthetic import planted
from densirank.errors import TrainingError
from densirank.linalg.routes import Route, fetched
from densirank.parallel import agent
from densirank.parallel.failures import Alarm
from densirank.parallel.joining import joined
from densirank.parallel.partition import Partition, Portion
from densirank.parallel.store import RunStore
from densirank.ranker import fit_ranker
from densirank.risks import RiskSpec
from densirank.training import sharded_checkpoint
from densirank.training.callbacks import Report
from densirank.world import World

DATA = planted(150, 90, items_per_user=10, test_items_per_user=3, seed=5).train
FEW = Interactions.from_pairs([1, 1, 2, 2, 3, 3], [1, 2, 2, 3, 3, 1])
SETTINGS: dict[str, Any] = {"dim": 12, "iterations": 12, "users_per_batch": 64}

Work = Callable[[World], None]


def cases() -> Iterator[tuple[str, Interactions, float | None, str, dict[str, Any]]]:
    """(name, data, validation, method, settings) of fits that any number of processes make."""
    yield "wd-mf-whitened", DATA, None, "wd-mf", {"optimiser": "whitened", "iterations": 50}
    yield "wd-lgcn-adam", DATA, None, "wd-lgcn", {"optimiser": "adam", "iterations": 50}
    yield "wd-mf-adam", DATA, None, "wd-mf", {"optimiser": "adam", "iterations": 6}
    yield "wd-lgcn-whitened", DATA, None, "wd-lgcn", {"optimiser": "whitened", "iterations": 6}
    yield "sampled", DATA, None, "pde-mf", {"candidates": 40, "iterations": 5}
    every_item = {"candidates": "all", "inference_layers": 2, "iterations": 5}
    yield "every-item", DATA, None, "mle-lgcn", every_item
    weights = {"user_exponent": 0.5, "base_exponent": 0.5, "candidate_correction": 0.5}
    yield "weighted", DATA, None, "wd-mf", {"iterations": 5, **weights}
    played = replace(DATA, weights=np.arange(len(DATA), dtype=np.float32) % 7 + 1)
    recent = {"filter_weight": 0.3, "recency": 1.0, "iterations": 5}
    yield "weighted-pairs", played, 0.2, "wd-lgcn", recent
    stops = {"validate_every": 2, "patience": 2, "filter_weight": 0.3}
    yield "validated", DATA, 0.2, "wd-lgcn", stops
    yield "few", FEW, None, "wd-lgcn", {"users_per_batch": 1, "iterations": 5}


def equality(folder: Path) -> None:
    """The same fits by a process alone, by two and by four; their models."""

    def work(world: World) -> None:
        for name, data, valid, method, settings in cases():
            ranker = Ranker(method, device="cpu", **(SETTINGS | settings))
            fit_ranker(ranker, data, valid, world=world if world.size > 1 else World())
            if world.first:
                ranker.save(folder / f"{name}-{world.size}")

    for n in (1, 2, 4):
        assert together(n, work) == [0] * n


def portions(folder: Path) -> None:
    """Fits of partitions, of which every process reads its own users alone."""
    fits: dict[str, tuple[Interactions, float | None, str]] = {
        "mf": (DATA, None, "wd-mf"),
        "random": (DATA, 0.2, "wd-lgcn"),
        "last": (replace(DATA, ordered=True), 0.2, "wd-mf"),
        "few": (FEW, 0.5, "wd-lgcn"),  # fewer users than processes
    }

    def write(rank: int) -> None:  # by a process of its own: polars has threads
        for name, (data, _, _) in fits.items():
            partition_of(data, folder / name)

    def work(world: World) -> None:
        for name, (_, valid, method) in fits.items():
            partition = Partition.open(folder / name)
            own = Portion.read(partition, world)
            assert own.n_users == len(world.own(partition.n_users))
            only_first = AssertionError("one process in the end writes everybody's")
            with mock.patch.object(
                Partition, "whole", autospec=True, side_effect=None if world.first else only_first
            ) as whole:
                whole.return_value = Partition.only(partition, range(partition.n_users))
                ranker = Ranker(method, device="cpu", **(SETTINGS | {"iterations": 5}))
                fit_ranker(ranker, own, valid, world=world)
            if world.first:
                ranker.save(folder / f"{name}-{world.size}")

    assert apart(1, write) == [0]
    for n in (2, 4):
        assert together(n, work) == [0] * n


def partition_of(data: Interactions, folder: Path) -> Partition:
    """A partition in three parts."""
    import polars as pl

    from densirank.data.columns import Columns
    from densirank.parallel.parquet_log import Log
    from densirank.parallel.partitioning import write_partition

    users, items = data.user_ids.ids[data.users], data.item_ids.ids[data.items]
    log = folder.with_suffix(".parquet")
    pl.DataFrame({"user_id": users, "item_id": items}).write_parquet(log)
    return write_partition(Log.open(log, Columns()), folder, 3, ordered=data.ordered)


def meeting(folder: Path) -> None:
    """Processes meet and talk, and meet again when one of them was killed."""
    _talk()
    _start_anew(folder)


def _talk() -> None:
    """What processes say to each other, with nothing to say by some."""

    def work(world: World) -> None:
        rows = torch.arange(4.0 * world.rank).view(-1, 2)  # 0, 2, 4 rows
        everybodys = [torch.arange(4.0 * rank).view(-1, 2) for rank in range(world.size)]
        _require_equal(world.gathered(rows), torch.cat(everybodys))
        collected = world.collected(rows)
        assert (collected is not None) == world.first
        if collected is not None:
            _require_equal(collected, torch.cat(everybodys))
        assert world.texts("topic", str(world.rank)) == ["0", "1", "2"]
        assert world.texts("topic", "again") == ["again"] * 3
        assert world.any(world.rank == 2)
        assert not world.any(False)
        _check_routes(world)

    assert together(3, work) == [0] * 3


def _check_routes(world: World) -> None:
    """Rows come from their owners, and the gradient of a row is the sum over who has read it."""
    table = torch.randn(7, 2, generator=torch.Generator().manual_seed(0))
    reads = [torch.tensor([5, 0, 6]), torch.tensor([], dtype=torch.int64), torch.tensor([3, 5, 1])]
    own = world.own(7)
    rows = table[own.start : own.stop].clone().requires_grad_()
    read = fetched(rows, Route(world, 7, reads[world.rank]))
    _require_equal(read, table[reads[world.rank]])
    (read * (world.rank + 1)).sum().backward()  # type: ignore[no-untyped-call]
    expected = torch.zeros(7, 2)
    for rank, wanted in enumerate(reads):
        expected[wanted] += rank + 1
    assert rows.grad is not None
    _require_equal(rows.grad, expected[own.start : own.stop])


def resuming(folder: Path) -> None:
    """A fit that four processes begin, two go on with and one ends; and damaged checkpoints."""

    def until(iteration: int | None) -> Work:
        def stop(report: Report) -> None:
            if report.iteration == iteration:
                signal.raise_signal(signal.SIGINT)

        def work(world: World) -> None:
            for optimiser in ("adam", "whitened"):
                settings = SETTINGS | {"optimiser": optimiser, "validate_every": 4}
                ranker = fit_ranker(
                    Ranker("wd-lgcn", device="cpu", **settings),
                    DATA,
                    0.2,
                    callbacks=[stop],
                    checkpoint=folder / f"checkpoint-{optimiser}",
                    checkpoint_seconds=PATIENCE,  # only when it is interrupted
                    world=world,
                )
                if world.first:
                    ranker.save(folder / f"{optimiser}-until-{iteration or 'the-end'}")
                    half_written = folder / f"checkpoint-{optimiser}" / sharded_checkpoint.WRITING
                    half_written.mkdir(exist_ok=True)
                    (half_written / "shard-00001.safetensors").write_bytes(b"half of it")

        return work

    assert together(4, until(4)) == [0] * 4
    ended = {}
    for name, damage in DAMAGES.items():
        shutil.copytree(folder / "checkpoint-whitened", folder / name)
        damage(folder / name / "1")
        print(f"=== {name}", file=sys.stderr, flush=True)
        ended[name] = together(2, partial(_fit, method="wd-lgcn", checkpoint=folder / name))
    (folder / "ended.json").write_text(json.dumps(ended))
    assert together(2, until(8)) == [0] * 2
    assert together(1, until(None)) == [0]


def _first_shard(checkpoint: Path) -> Path:
    return min(checkpoint.glob("*.safetensors"))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "metadata": lambda folder: (folder / sharded_checkpoint.METADATA).write_text("{"),
    "half a file": lambda folder: _first_shard(folder).write_bytes(b"half of it"),
    "a file too few": lambda folder: _first_shard(folder).unlink(),
}


def failures(folder: Path) -> None:
    """One process fails in many ways; how all of them end."""
    ended = {}
    for name, n, work in (
        ("mismatch", 2, _other_data),
        ("memory", 3, _out_of_memory),
        ("bug", 2, _bug),
        ("lost", 2, _killed),
        ("not finite", 2, _not_finite),
        ("method", 2, _method_that_cannot),
        ("interrupted", 2, _interrupted),
        ("stopped", 2, _stopped),
        ("nowhere to print", 2, _nowhere_to_print),
    ):
        print(f"=== {name}", file=sys.stderr, flush=True)
        ended[name] = together(n, work)
    print("=== device", file=sys.stderr, flush=True)
    ended["device"] = apart(2, _ask_for_another_device)
    print("=== silent store", file=sys.stderr, flush=True)
    ended["silent store"] = apart(1, _stopped_while_the_store_is_silent)
    (folder / "ended.json").write_text(json.dumps(ended))


def _start_anew(folder: Path) -> None:
    """A process is killed; all start again at the store of those before, one of them late."""
    with lasting_store() as port:
        ended = [apart(2, partial(_start_again, late), port) for late in (None, 0, 1)]
    (folder / "ended.json").write_text(json.dumps(ended))


def _start_again(late: int | None, rank: int) -> None:
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(rank)  # every node counts its own
    if rank == late:
        time.sleep(0.3)
    with joined("cpu") as world:
        assert world.begun() == (late is not None)
        assert world.texts("topic", f"{late}/{rank}") == [f"{late}/0", f"{late}/1"]
        world.wait()
        world.begin()
        world.wait()
        if late is None and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def _fit(world: World, data: Interactions = DATA, method: str = "wd-mf", **options: Any) -> None:
    ranker = Ranker(method, device="cpu", **SETTINGS)
    fit_ranker(ranker, data, world=world, **options)


def _other_data(world: World) -> None:
    _fit(world, FEW if world.rank == 1 else DATA)


def _out_of_memory(world: World) -> None:
    def risk(*_: object) -> Any:
        raise torch.OutOfMemoryError("tried to allocate 20 GiB")

    if world.rank != 2:
        _fit(world)
    with mock.patch.object(RiskSpec, "on", return_value=risk):
        _fit(world)


def _bug(world: World) -> None:
    if world.rank == 1:
        raise KeyError("a defect")
    world.wait()


def _killed(world: World) -> None:
    world.wait()  # until all have met
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    world.wait()


def _not_finite(world: World) -> None:
    raise TrainingError("the loss is no longer finite")


def _method_that_cannot(world: World) -> None:
    _fit(world, method="bpr-mf")


def _interrupted(world: World) -> None:
    if world.rank == 1:
        raise KeyboardInterrupt
    world.wait()


def _stopped(world: World) -> None:
    world.wait()  # until all have met
    if world.rank == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE)


def _nowhere_to_print(world: World) -> None:
    """The first process, which has to say why all end, cannot."""
    world.wait()
    if world.first:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        raise TrainingError("the loss is no longer finite")
    world.wait()


def _stopped_while_the_store_is_silent(rank: int) -> None:
    """The thread that trains, and the one that listens, wait for the store when SIGTERM comes."""
    silent = RunStore(Silent(), limit=PATIENCE)
    with Alarm(rank, silent):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGTERM)).start()
        silent.get("something")


class Silent:
    """A store behind a cable that was cut after the first word."""

    def add(self, key: str, amount: int) -> int:
        return amount

    def __getattr__(self, word: str) -> Callable[..., Any]:
        return lambda *_: threading.Event().wait()


def _ask_for_another_device(rank: int) -> None:
    with joined("abacus"):
        pass


def _require_equal(one: torch.Tensor, other: torch.Tensor) -> None:
    assert torch.equal(one, other), (one, other)


def together(n: int, work: Work) -> list[int]:
    """Do the work in ``n`` processes that have met; their exit statuses."""

    def meet(rank: int) -> None:
        with joined("cpu") as world:
            work(world)

    return apart(n, meet)


def run(n: int, words: list[str]) -> None:
    """Be torchrun, but for what it takes to load everything in each process."""
    sys.exit(max(map(abs, apart(n, lambda rank: as_python(words)))))


def torchrun(words: list[str]) -> None:
    """What torchrun does with its words; only how its processes begin is another."""
    given = parse_args(words)  # type: ignore[no-untyped-call]
    config, _, _ = config_from_args(given)
    config.start_method = "fork"
    module = ["-m"] if given.module else []
    elastic_launch(config, as_python)([*module, given.training_script, *given.training_script_args])


def as_python(words: list[str]) -> None:
    """Do what the interpreter would with these words."""
    sys.argv = words
    if words[0] == "-m":
        sys.argv = words[1:]
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


def two_hosts(folder: Path) -> None:
    """Two hosts, and what happens to them and to the cable between them."""
    with mock.patch.object(agent, "NAMES", (Path(__file__).name,)):  # what plays torchrun
        play_all(folder, torchrun)


SCENES = {
    scene.__name__: scene for scene in (equality, portions, meeting, resuming, failures, two_hosts)
}


@dataclass(frozen=True)
class Wish:
    """What to play, and where to leave what is printed."""

    words: list[str]
    environment: dict[str, str]
    stdout: str
    stderr: str
    seconds: float

    def play(self) -> None:
        """In a process, and a group of processes, of its own."""
        os.setsid()
        for number, path in enumerate((os.devnull, self.stdout, self.stderr)):
            os.dup2(os.open(path, os.O_CREAT | (os.O_WRONLY if number else os.O_RDONLY)), number)
        kind, *words = self.words
        if kind == "scene":
            SCENES[words[0]](Path(words[1]))
        elif kind == "run":
            run(int(words[0]), words[1:])
        elif kind == "torchrun":
            torchrun(words)
        else:
            as_python(words)

    def fulfil(self) -> int | None:
        """Its exit status; None if it took too long, and was stopped with all that it started."""
        child = forked(self.environment, self.play)
        status = status_of(child, time.monotonic() + self.seconds, signal.SIGTERM)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        return status


if __name__ == "__main__":
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(Wish(**json.loads(line)).fulfil()), flush=True)
    os._exit(0)  # taking all that was loaded down takes a second
