"""Lists of indices as tables of the original ids, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
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


def recommendations(blocks: Iterable[Lists], data: Interactions) -> pl.DataFrame:
    """``user_id, item_id, score, probability, rank`` of lists; no probability where no normaliser.

    (A column of nulls then: it is not known, which is not the same as zero.)
    """
    import polars as pl

    return pl.concat([_recommendations(lists, data) for lists in blocks])


def _recommendations(lists: Lists, data: Interactions) -> pl.DataFrame:
    import polars as pl

    there = lists.items >= 0
    rows, places = there.nonzero(as_tuple=True)
    probability = pl.repeat(None, len(rows), dtype=pl.Float32, eager=True)
    if lists.log_normaliser is not None:
        log_probability = lists.scores - lists.log_normaliser.unsqueeze(1)
        probability = pl.Series(log_probability[there].exp().cpu().numpy())
    return pl.DataFrame(
        {
            "user_id": id_series(data.user_ids, lists.users[rows]),
            "item_id": id_series(data.item_ids, lists.items[there]),
            "score": lists.scores[there].cpu().numpy(),
            "probability": probability,
            "rank": (places + 1).cpu().numpy(),
        }
    )


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
