"""Lists of indices as tables of the original ids, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.ranking.topk import Lists

if TYPE_CHECKING:
    import polars as pl


def id_series(vocabulary: Vocabulary, indices: Tensor) -> pl.Series:
    """The original ids at these indices, as a column."""
    import polars as pl

    kind = pl.String if vocabulary.is_text else pl.Int64
    return pl.Series(vocabulary.ids[indices.cpu().numpy()], dtype=kind)


def recommendations(
    blocks: Iterable[Lists], data: Interactions, users: Vocabulary | None = None
) -> pl.DataFrame:
    """``user_id, item_id, score, probability, rank`` of lists that carry their normaliser.

    The lists are of the users of ``data``, or of others where these are given.
    """
    import polars as pl

    user_ids = data.user_ids if users is None else users
    return pl.concat([_recommendations(lists, user_ids, data.item_ids) for lists in blocks])


def _recommendations(lists: Lists, user_ids: Vocabulary, item_ids: Vocabulary) -> pl.DataFrame:
    import polars as pl

    there = lists.items >= 0
    rows, places = there.nonzero(as_tuple=True)
    assert lists.log_normaliser is not None
    log_probability = lists.scores - lists.log_normaliser.unsqueeze(1)
    return pl.DataFrame(
        {
            "user_id": id_series(user_ids, lists.users[rows]),
            "item_id": id_series(item_ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "probability": log_probability[there].exp().cpu().numpy(),
            "rank": (places + 1).cpu().numpy(),
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


def similar(lists: Lists, data: Interactions) -> pl.DataFrame:
    """``item_id, score, rank`` of one list of items."""
    import polars as pl

    there = lists.items >= 0
    return pl.DataFrame(
        {
            "item_id": id_series(data.item_ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "rank": torch.arange(1, int(there.sum()) + 1).numpy(),
        }
    )
