"""Quality of recommendations against seconds, for densirank and commonly used libraries.

    python benchmarks/time_to_quality.py                          # Gowalla, two cores
    python benchmarks/time_to_quality.py --dataset yelp2018 --json yelp2018.json
    python benchmarks/time_to_quality.py --device cuda --peers none

Each of our points is one fit from scratch: first the item–item filter, which needs no training,
then the filter with an increasing number of iterations. Every peer is installed once in a separate
environment and always runs on the CPU. All runs use two threads and a new process, and all lists
are evaluated by the same code. Our time runs from the interactions to the first list (on a GPU,
after a first short fit), the peers' covers only the fit; RecBole's graph is built before.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from torch import Tensor

from densirank import Ranker, __version__
from densirank.data.datasets import load_public
from densirank.evaluation.held_out import HeldOut
from environments import Environment
from measuring import environment, in_own_process, peak_mib, wait
from peers.exchange import Result, Task

K = 20
THREADS = 2
HERE = Path(__file__).parent

FILTER_ALONE = {
    "method": "popularity",
    "filter_weight": 20.0,
    "filter_recency": 3.0,
    "filter_span": 8,
}
SMALL = {
    "method": "densirank",
    "dim": 64,
    "users_per_batch": 2500,
    "candidates": "batch",
    "recency": 2.0,
}
"""A size for two cores."""
HURRIED: dict[str, dict[int, dict[str, float]]] = {
    "gowalla": {
        10: {"learning_rate": 0.2, "max_norm": 4.5, "filter_weight": 0.7},
        20: {"learning_rate": 0.2, "max_norm": 4.5, "filter_weight": 0.4},
        40: {"learning_rate": 0.3, "max_norm": 3.5, "filter_weight": 0.3},
        100: {},
    },
    "yelp2018": {
        10: {"learning_rate": 0.5, "max_norm": 4.5, "filter_weight": 0.7},
        20: {"learning_rate": 0.5, "max_norm": 4.5, "filter_weight": 0.4},
        40: {"learning_rate": 0.3, "max_norm": 4.5, "filter_weight": 0.4},
        100: {},
    },
}
"""The best settings per number of iterations, chosen on the last tenth of training items."""
ON_GPU = {"users_per_batch": 5000, "candidates": "all"}
"""A GPU has time for larger batches."""


def ours(dataset: str, device: str) -> dict[str, dict[str, Any]]:
    """The arguments of the ranker apart from the device; each is one fit, one point."""
    if device == "cuda":
        return {
            f"wd-lgcn, {iterations} iterations": {"iterations": iterations, **ON_GPU}
            for iterations in (100, 200, 500)
        }
    trained = {
        f"densirank, {iterations} iterations": {**SMALL, "iterations": iterations, **chosen}
        for iterations, chosen in HURRIED[dataset].items()
    }
    default = {"wd-lgcn, 100 iterations": {"iterations": 100}}
    return {"item filter alone": FILTER_ALONE, **trained, **default}


ALS: dict[str, dict[int, tuple[int, int]]] = {
    "gowalla": {64: (40, 50), 128: (40, 100), 256: (80, 200), 512: (80, 200)},
    "yelp2018": {64: (20, 10), 128: (10, 10), 256: (20, 50), 512: (20, 100)},
}
"""ALS' best α and regularisation for each number of factors."""
FACTORS = (64, 128, 256, 512)


def als(dataset: str, factors: int) -> dict[str, Any]:
    """ALS' settings: more factors need fewer iterations."""
    alpha, regularisation = ALS[dataset][factors]
    return {
        "model": "als",
        "factors": factors,
        "iterations": 15 if factors < 256 else 10,
        "alpha": alpha,
        "regularization": regularisation,
    }


BPR = {"model": "bpr", "factors": 64, "iterations": 100}
LIGHTGCN = {
    "embedding_size": 64,
    "n_layers": 3,
    "train_batch_size": 2048,
    "learning_rate": 1e-3,
    "reg_weight": 1e-4,
    "epochs": 1,
}
SETTINGS: dict[str, dict[str, dict[str, Any]]] = {
    dataset: {f"als-{factors}": als(dataset, factors) for factors in FACTORS}
    | {"bpr": BPR, "recbole-lightgcn": LIGHTGCN}
    for dataset in ALS
}
"""What the peers are given on each data set."""


@dataclass(frozen=True)
class Peer:
    """A library we compare with: what it needs, and the script that fits it."""

    title: str
    requirements: str  # the environment is named after it
    module: str
    variables: dict[str, str]  # threads of the numerical libraries, as the library wants them


ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""implicit requires this, because it has its own threads; more would slow it down a lot."""

YARDSTICK = "als-256"
"""What seconds are compared with."""

PEERS = {
    **{
        f"als-{factors}": Peer(
            f"implicit ALS, {factors} factors", "implicit", "peers.implicit_mf", ONE_BLAS_THREAD
        )
        for factors in FACTORS
    },
    "bpr": Peer("implicit BPR", "implicit", "peers.implicit_mf", ONE_BLAS_THREAD),
    "recbole-lightgcn": Peer(
        "RecBole LightGCN, one epoch",
        "recbole",
        "peers.recbole_lightgcn",
        {"OMP_NUM_THREADS": str(THREADS)},
    ),
}


class PeerError(Exception):
    """Raised if a peer gave no result; the message can be shown to the user."""


@dataclass(frozen=True)
class Point:
    """What a method costs and what it reaches."""

    method: str
    settings: dict[str, Any]
    seconds: float
    recall: float
    ndcg: float
    peak_mib: float
    versions: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """The point under the names the other records use."""
        record = asdict(self)
        record[f"recall@{K}"], record[f"ndcg@{K}"] = record.pop("recall"), record.pop("ndcg")
        return record


@dataclass(frozen=True)
class Case:
    """What is learnt from, and where ours runs."""

    dataset: str
    data_dir: Path | None
    device: str


def our_point(name: str, case: Case) -> Point:
    """One fit of ours, in this process."""
    torch.set_num_threads(THREADS)
    train = load_public(case.dataset, "train", case.data_dir)
    settings = {"method": "wd-lgcn"} | ours(case.dataset, case.device)[name]
    ranker = Ranker(device=case.device, **settings)
    if case.device == "cuda":  # compiles the kernels, once a machine, and loads them
        Ranker(device=case.device, **(settings | {"iterations": 5})).fit(train)
    wait(case.device)
    started = time.perf_counter()
    ranker.fit(train)
    ranker.recommend(train.user_ids[0], K)
    wait(case.device)
    seconds = time.perf_counter() - started
    peak = peak_mib(case.device)
    reached = ranker.evaluate(load_public(case.dataset, "test", case.data_dir), K)
    return Point(
        name,
        settings,
        seconds,
        reached[f"recall@{K}"],
        reached[f"ndcg@{K}"],
        peak,
        {"densirank": __version__, "torch": torch.__version__},
    )


class ListScorer:
    """Scores that put a user's listed items in the order of the list, and nothing else anywhere.

    With it, lists made elsewhere take the same way to the metrics as our own.
    """

    def __init__(self, lists: NDArray[Any], n_items: int) -> None:
        self.lists = torch.from_numpy(lists).long()
        self.n_items = n_items
        self.n_users = len(lists)
        self.device = self.lists.device

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        """-rank for what is listed, -inf for what is not."""
        listed = self.lists[users]
        scores = torch.empty(len(users), self.n_items) if out is None else out
        ranks = torch.arange(1.0, listed.shape[1] + 1).expand(listed.shape)
        rows, places = (listed >= 0).nonzero(as_tuple=True)
        scores.fill_(-torch.inf)[rows, listed[rows, places]] = -ranks[rows, places]
        return scores


def peer_result(name: str, task: Task, environments: Path, console: Console) -> Result:
    """One fit of a peer in its environment, which is created if necessary."""
    peer = PEERS[name]
    environments.mkdir(parents=True, exist_ok=True)
    log = environments / f"{name}.log"
    log.write_text("", encoding="utf-8")
    variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(command: list[str]) -> None:
        with log.open("a", encoding="utf-8") as output:
            print(f"$ {shlex.join(command)}", file=output, flush=True)
            subprocess.run(
                command,
                check=True,
                cwd=HERE,
                env=variables | peer.variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    place = Environment(
        environments / f"densirank-peer-{peer.requirements}",
        HERE / "peers" / f"{peer.requirements}.txt",
    )
    doing = "installing"
    try:
        if not place.is_complete():
            console.print(f"installing {peer.title} in {place.folder} (log: {log})")
            place.make(run)
        doing = "fitting"
        console.print(f"fitting {peer.title} (log: {log})")
        with TemporaryDirectory() as folder:
            task.save(Path(folder))
            run([str(place.python), "-m", peer.module, folder])
            return Result.load(Path(folder))
    except (subprocess.CalledProcessError, OSError) as error:
        raise PeerError(f"{doing} {name} failed ({reason(error)}); see {log}") from error


def peer_point(name: str, task: Task, result: Result, held_out: HeldOut) -> Point:
    """The result of a peer, with its lists measured."""
    reached = held_out.evaluate(ListScorer(result.lists, task.n_items), K).summary()
    return Point(
        PEERS[name].title,
        task.settings,
        result.seconds,
        reached[f"recall@{K}"],
        reached[f"ndcg@{K}"],
        result.peak_mib,
        result.versions,
    )


def reason(error: Exception) -> str:
    """Why a command gave no result, in few words."""
    if not isinstance(error, subprocess.CalledProcessError):
        return str(error)
    ended = "signal" if error.returncode < 0 else "exit code"
    return f"{ended} {abs(error.returncode)}"


def show(rows: dict[str, Point | None], title: str) -> None:
    """One table; a peer without a result has a row that says so."""
    yardstick = rows.get(YARDSTICK)
    table = Table(title=title)
    table.add_column("method", no_wrap=True)
    for heading in ("seconds", f"× {YARDSTICK}", f"recall@{K}", f"nDCG@{K}", "MiB"):
        table.add_column(heading, justify="right")
    for name, point in rows.items():
        if point is None:
            table.add_row(PEERS[name].title, "failed", *4 * ["–"])
            continue
        table.add_row(
            point.method,
            f"{point.seconds:.1f}",
            "–" if yardstick is None else f"{point.seconds / yardstick.seconds:.2f}",
            f"{point.recall:.4f}",
            f"{point.ndcg:.4f}",
            f"{point.peak_mib:,.0f}",
        )
    Console().print(table)


def cache_folder() -> Path:
    """Where the environments are kept unless the caller says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "densirank-benchmarks"


def main() -> None:
    """Fit everything, print one table and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=sorted(SETTINGS), default="gowalla")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where ours runs")
    parser.add_argument("--peers", nargs="+", choices=(*PEERS, "none"), default=list(PEERS))
    parser.add_argument(
        "--environments", type=Path, default=cache_folder(), help="where the peers are installed"
    )
    parser.add_argument("--json", type=Path, help="also write the figures here")
    given = parser.parse_args()
    peers = [name for name in given.peers if name != "none"]
    case = Case(given.dataset, given.data_dir, given.device)
    torch.set_num_threads(THREADS)
    console = Console(stderr=True, highlight=False, soft_wrap=True)

    train = load_public(case.dataset, "train", case.data_dir)
    test = load_public(case.dataset, "test", case.data_dir)
    held_out = HeldOut(test, train, torch.device("cpu"))
    rows: dict[str, Point | None] = {}
    for name in ours(case.dataset, case.device):
        console.print(f"fitting {name}")
        rows[name] = in_own_process(our_point, name, case)
    for name in peers:
        settings = SETTINGS[case.dataset][name]
        task = Task(train.indptr, train.items, train.n_items, THREADS, K, settings)
        try:
            result = peer_result(name, task, given.environments.absolute(), console)
            rows[name] = peer_point(name, task, result, held_out)
        except PeerError as error:
            console.print(str(error), style="red")
            rows[name] = None

    show(rows, f"Time to quality on {case.dataset}, ours on {case.device}, {THREADS} threads")
    if given.json is not None:
        points = {name: "failed" if row is None else row.to_json() for name, row in rows.items()}
        record = {
            "command": shlex.join(["python", *sys.argv]),
            "dataset": case.dataset,
            "fingerprint": {"train": train.fingerprint, "test": test.fingerprint},
            "device": case.device,
            "ours": [points[name] for name in ours(case.dataset, case.device)],
            "peers": {name: points[name] for name in peers},
            "environment": environment(case.device),
        }
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if None in rows.values():
        sys.exit(1)


if __name__ == "__main__":
    main()
