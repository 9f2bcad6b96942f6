"""RecBole's LightGCN with RecBole's own trainer, on a task of the benchmark.

python -m peers.recbole_lightgcn FOLDER
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from recbole.config import Config
from recbole.data import create_dataset
from recbole.data.dataloader import TrainDataLoader
from recbole.data.interaction import Interaction
from recbole.model.general_recommender import LightGCN
from recbole.sampler import Sampler
from recbole.trainer import Trainer
from recbole.utils import init_seed

from peers.exchange import Result, Task, best_unseen, measured, versions

DATASET, PART = "pairs", "train"


def write_pairs(task: Task, folder: Path) -> None:
    """The training data as one of RecBole's atomic files."""
    folder.mkdir()
    with (folder / f"{DATASET}.{PART}.inter").open("w", encoding="ascii") as file:
        file.write("user_id:token\titem_id:token\n")
        pairs = zip(task.users.tolist(), task.items.tolist(), strict=True)
        file.writelines(f"{user}\t{item}\n" for user, item in pairs)


def main() -> None:
    """Fit and rank."""
    folder = Path(sys.argv[1]).resolve()
    task = Task.load(folder)
    torch.set_num_threads(task.threads)
    write_pairs(task, folder / DATASET)
    os.chdir(folder)  # RecBole leaves its logs where it is started
    settings = {
        "data_path": str(folder),
        "benchmark_filename": [PART],
        "load_col": {"inter": ["user_id", "item_id"]},
        "checkpoint_dir": str(folder / "checkpoints"),
        "use_gpu": False,
        "seed": 0,
        **task.settings,
    }
    config = Config(model="LightGCN", dataset=DATASET, config_dict=settings)
    init_seed(config["seed"], config["reproducibility"])
    dataset = create_dataset(config)
    (train,) = dataset.build()
    sampler = Sampler(PART, train).set_phase(PART)
    batches = TrainDataLoader(config, train, sampler, shuffle=True)
    model = LightGCN(config, train).to(config["device"])
    trainer = Trainer(config, model)
    seconds, peak = measured(lambda: trainer.fit(batches, saved=False, show_progress=True))

    model.eval()
    user_ids, item_ids = (
        torch.from_numpy(dataset.token2id(field, np.arange(n).astype(str)))
        for field, n in (("user_id", task.n_users), ("item_id", task.n_items))
    )

    @torch.no_grad()
    def scores(users: NDArray[np.int64]) -> NDArray[np.float32]:
        """Rows and columns in the task's order; RecBole has its own, with padding at 0."""
        rows = model.full_sort_predict(Interaction({"user_id": user_ids[users]}))
        ordered: NDArray[np.float32] = rows.view(len(users), -1)[:, item_ids].numpy()
        return ordered

    lists = best_unseen(task, scores)
    used = versions("recbole", "torch", "numpy", "scipy", "pandas")
    Result(lists, seconds, peak, used).save(folder)


if __name__ == "__main__":
    main()
