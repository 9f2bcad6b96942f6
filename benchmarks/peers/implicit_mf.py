"""implicit's ALS or BPR, on a task of the benchmark.

python -m peers.implicit_mf FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from implicit.als import AlternatingLeastSquares
from implicit.bpr import BayesianPersonalizedRanking
from scipy.sparse import csr_matrix

from peers.exchange import Result, Task, best_unseen, measured, versions

MODELS = {"als": AlternatingLeastSquares, "bpr": BayesianPersonalizedRanking}


def main() -> None:
    """Fit and rank."""
    folder = Path(sys.argv[1])
    task = Task.load(folder)
    settings = dict(task.settings)
    create = MODELS[settings.pop("model")]
    ones = np.ones(len(task.items), dtype=np.float32)
    pairs = csr_matrix((ones, task.items, task.indptr), shape=(task.n_users, task.n_items))
    pairs.sort_indices()
    model = create(use_gpu=False, num_threads=task.threads, random_state=0, **settings)

    def fit_to_the_first_list() -> None:
        model.fit(pairs, show_progress=False)
        model.recommend(0, pairs[0], N=task.k)

    seconds, peak = measured(fit_to_the_first_list)
    lists = best_unseen(task, lambda users: model.user_factors[users] @ model.item_factors.T)
    Result(lists, seconds, peak, versions("implicit", "numpy", "scipy")).save(folder)


if __name__ == "__main__":
    main()
