"""What each piece of the library's own method brings: the method without it, on validation data.

The settings are those that were chosen for a data set, with one piece at a time put back to what
the paper has. Five seeds each; the paired test and the effect are over the users, each with the
mean of the seeds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.data.splitting import validation_split
from densirank.evaluation.metrics import Floats
from densirank.ranker import Ranker
from densirank.training.callbacks import Callback
from paper.choosing import HELD_OUT
from paper.provenance import checkout, hardware, versions
from paper.records import AblationRecord, K, SearchRecord
from paper.running import chosen_settings, stop_if_interrupted

WHOLE = "nothing"
PIECES: Mapping[str, Mapping[str, Any]] = {
    WHOLE: {},
    "order": {"recency": 0.0, "filter_recency": 0.0, "filter_span": 0},
    "recency": {"recency": 0.0},
    "filter-recency": {"filter_recency": 0.0},
    "filter-span": {"filter_span": 0},
    "filter": {"filter_weight": 0.0},
    "base-density": {"base_exponent": 0.0},
    "user-weights": {"user_exponent": 0.0},
    "all-candidates": {"candidates": "batch"},
    "dimensions": {"dim": 64},
    "clipping": {"max_norm": None},
}
"""What is taken away, and the settings that take it away."""


def pieces_of(choice: SearchRecord) -> list[str]:
    """The pieces that the chosen settings have; what they lack cannot be taken away."""
    settings = chosen_settings(choice)
    return [
        piece
        for piece, without in PIECES.items()
        if piece == WHOLE or any(settings[key] != value for key, value in without.items())
    ]


def ablate(
    train: Interactions,
    choice: SearchRecord,
    piece: str,
    seeds: Sequence[int],
    *,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
) -> tuple[AblationRecord, NDArray[np.int64], Mapping[str, Floats]]:
    """The method without a piece: its record, and the users with the means of their metrics."""
    settings = chosen_settings(choice) | dict(PIECES[piece])
    part, held_out = validation_split(train, HELD_OUT, "last")
    started = time.perf_counter()
    found = []
    for seed in seeds:
        ranker = Ranker(choice.method, seed=seed, device=device, **settings)
        ranker.fit(part, callbacks=callbacks)
        stop_if_interrupted(ranker)
        found.append(ranker.evaluation(held_out, K))
    record = AblationRecord(
        method=choice.method,
        dataset=choice.dataset,
        seed=seeds[0],
        settings=settings,
        train_fingerprint=train.fingerprint,
        versions=versions(),
        hardware=hardware(device, choice.method, ranker.settings_),
        **checkout(),
        without=piece,
        ndcgs=[float(one.per_user["ndcg"].mean()) for one in found],
        seconds=round((time.perf_counter() - started) / len(seeds), 3),
    )
    means: dict[str, Floats] = {
        name: np.mean([one.per_user[name] for one in found], axis=0) for name in ("recall", "ndcg")
    }
    return record, train.user_ids.ids[found[0].users], means
