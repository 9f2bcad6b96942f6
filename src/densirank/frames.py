"""Results as polars frames with the original ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import IntArray, Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.evaluation.reliability import Reliability
from densirank.ranking.density import DensityBlock
from densirank.ranking.lists import Choice, Kind, People
from densirank.ranking.topk import Lists

if TYPE_CHECKING:
    import polars as pl

Places = tuple[NDArray[np.int64], IntArray]


def id_series(vocabulary: Vocabulary, indices: Tensor) -> pl.Series:
    """The original ids at these indices, as a column."""
    import polars as pl

    kind = pl.String if vocabulary.is_text else pl.Int64
    return pl.Series(vocabulary.ids[indices.cpu().numpy()], dtype=kind)


def recommendations(people: People, choice: Choice, item_ids: Vocabulary) -> pl.DataFrame:
    """``user_id, item_id, score, probability, rank`` of lists, ``log_propensity`` of drawn ones.

    Approximate lists have null probabilities: they are unknown, not zero.
    """
    import polars as pl

    frames = []
    for lists in people.lists(choice):
        there = lists.items >= 0
        rows, places = there.nonzero(as_tuple=True)
        probability = people.probabilities(lists)
        columns = {
            "user_id": id_series(people.user_ids, lists.users[rows]),
            "item_id": id_series(item_ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "probability": pl.repeat(None, len(rows), dtype=pl.Float32, eager=True)
            if probability is None
            else probability[there].cpu().numpy(),
            "rank": (places + 1).cpu().numpy(),
        }
        if lists.log_propensities is not None:
            columns["log_propensity"] = lists.log_propensities[there].cpu().numpy()
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def of_kind(frame: pl.DataFrame, kind: Kind) -> pl.DataFrame:
    """The same lists with the kind of people that they are for."""
    import polars as pl

    return frame.with_columns(pl.lit(kind).alias("kind"))


def write(frame: pl.DataFrame | pl.LazyFrame, path: Path, suffix: str, **options: Any) -> None:
    """Write a frame in the format of a suffix; a lazy one is streamed."""
    rows = frame.lazy()
    if suffix == ".csv":
        rows.sink_csv(path, maintain_order=True)
    elif suffix == ".jsonl":
        rows.sink_ndjson(path, maintain_order=True)
    else:
        rows.sink_parquet(path, maintain_order=True, **options)


def slate_matrix(frame: pl.DataFrame, data: Interactions) -> tuple[Tensor, Tensor, Places]:
    """(user of each slate, its items padded with -1, the position of each row in that matrix)."""
    missing = {"user_id", "item_id", "rank"} - set(frame.columns)
    if missing:
        raise InputError(f"slates lack the column {', '.join(sorted(missing))}")
    if frame.height == 0:
        raise InputError("there are no slates")
    users = data.user_ids.known(frame["user_id"].to_list(), "user")
    items = data.item_ids.known(frame["item_id"].to_list(), "item")
    rank = frame["rank"].to_numpy()
    starts = rank == 1
    slate = np.cumsum(starts) - 1
    continues = (rank[1:] == rank[:-1] + 1) & (users[1:] == users[:-1])
    if not starts[0] or not (starts[1:] | continues).all():
        raise InputError("the rows of a slate must be of one user and have the ranks 1, 2, 3, …")
    if len(np.unique(slate * data.n_items + items)) < len(items):
        raise InputError("a slate lists an item twice")
    matrix = np.full((int(slate[-1]) + 1, int(rank.max())), -1, dtype=np.int64)
    places = (slate, rank - 1)
    matrix[places] = items
    return torch.from_numpy(users[starts]), torch.from_numpy(matrix), places


def entropies(blocks: Iterable[DensityBlock], data: Interactions) -> pl.DataFrame:
    """``user_id, entropy, effective_items`` of densities, one block in memory at a time."""
    import polars as pl

    return pl.concat(
        [
            pl.DataFrame(
                {
                    "user_id": id_series(data.user_ids, users),
                    "entropy": entropy.cpu().numpy(),
                    "effective_items": effective_items.cpu().numpy(),
                }
            )
            for users, _, entropy, effective_items in blocks
        ]
    )


def reliability(bins: Reliability) -> pl.DataFrame:
    """One row per bin: its bounds, the expected and observed counts, and both as probabilities."""
    import polars as pl

    counts = ("low", "high", "chances", "expected", "observed")
    shares = ("predicted", "frequency", "standard_error")
    frame = pl.DataFrame({name: getattr(bins, name) for name in counts + shares})
    return frame.with_columns(pl.col("chances", "observed").cast(pl.Int64))


def in_order_of(asked: NDArray[Any], parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all parts, user by user in the order of ``asked``."""
    import polars as pl

    frame = pl.concat(parts)
    users = pl.DataFrame({"user_id": pl.Series(asked, dtype=frame.schema["user_id"])})
    return users.join(frame, on="user_id", how="inner", maintain_order="left_right")


def contributions(past: NDArray[np.int32], added: NDArray[Any], data: Interactions) -> pl.DataFrame:
    """``item_id, contribution`` of past items to the score of another item."""
    import polars as pl

    items = id_series(data.item_ids, torch.from_numpy(past))
    return pl.DataFrame({"item_id": items, "contribution": added})


def similar(lists: Lists, ids: Vocabulary, what: str) -> pl.DataFrame:
    """``item_id, score, rank`` of one list of items, or ``user_id, …`` of one list of users."""
    import polars as pl

    there = lists.items >= 0
    return pl.DataFrame(
        {
            f"{what}_id": id_series(ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "rank": torch.arange(1, int(there.sum()) + 1).numpy(),
        }
    )
