"""Lists of indices as tables of the original ids, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from densirank.ranking.lists import Choice, People, probabilities
from densirank.ranking.sampling import Slates
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
    """``user_id, item_id, score, probability, rank`` of lists, and what they were drawn with.

    The probability is a column of nulls where there is no normaliser: it is not known, which is not
    the same as zero. Slates that were drawn have ``log_propensity`` too.
    """
    import polars as pl

    return pl.concat([_recommendations(lists, people, item_ids) for lists in people.lists(choice)])


def _recommendations(lists: Lists, people: People, item_ids: Vocabulary) -> pl.DataFrame:
    import polars as pl

    there = lists.items >= 0
    rows, places = there.nonzero(as_tuple=True)
    found = probabilities(lists, people.density)
    if found is None:
        probability = pl.repeat(None, len(rows), dtype=pl.Float32, eager=True)
    else:
        probability = pl.Series(found[there].cpu().numpy())
    frame = pl.DataFrame(
        {
            "user_id": id_series(people.user_ids, lists.users[rows]),
            "item_id": id_series(item_ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "probability": probability,
            "rank": (places + 1).cpu().numpy(),
        }
    )
    if not isinstance(lists, Slates):
        return frame
    drawn = pl.Series("log_propensity", lists.log_propensities[there].cpu().numpy())
    return frame.with_columns(drawn)


def slate_matrix(frame: pl.DataFrame, data: Interactions) -> tuple[Tensor, Tensor, Places]:
    """(user of each slate, its items padded with -1, where in that matrix each row stands)."""
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
    """``user_id, entropy, effective_items`` of densities, which are let go one by one."""
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
    """One row a bin: its bounds, what was expected and seen in it, and both as probabilities."""
    import polars as pl

    return pl.DataFrame(
        {
            "low": bins.low,
            "high": bins.high,
            "chances": bins.chances.astype("int64"),
            "expected": bins.expected,
            "observed": bins.observed.astype("int64"),
            "predicted": bins.predicted,
            "frequency": bins.frequency,
            "standard_error": bins.standard_error,
        }
    )


def in_order_of(asked: NDArray[Any], parts: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The rows of all parts, user by user as they were asked for."""
    import polars as pl

    frame = pl.concat(parts)
    users = pl.DataFrame({"user_id": pl.Series(asked, dtype=frame.schema["user_id"])})
    return users.join(frame, on="user_id", how="inner", maintain_order="left_right")


def contributions(past: NDArray[np.int32], added: NDArray[Any], data: Interactions) -> pl.DataFrame:
    """``item_id, contribution`` of past items to the score of another."""
    import polars as pl

    items = id_series(data.item_ids, torch.from_numpy(past))
    return pl.DataFrame({"item_id": items, "contribution": added})


def similar(lists: Lists, ids: Vocabulary, what: str) -> pl.DataFrame:
    """``item_id, score, rank`` of one list of items, or the same of users."""
    import polars as pl

    there = lists.items >= 0
    return pl.DataFrame(
        {
            f"{what}_id": id_series(ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "rank": torch.arange(1, int(there.sum()) + 1).numpy(),
        }
    )
