"""Looking around in a model: who and what it knows, and how it came about."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from densirank.data.vocabulary import Vocabulary
from densirank.ranking.lists import Choice
from densirank.serving.config import MAX_LISTED
from densirank.serving.engine import Answer, Engine

ON_THE_CARD = ("settings", "seed", "created", "densirank", "data", "training")


def users(engine: Engine, query: str, limit: int) -> Answer:
    """Users whose id begins with the query."""
    data = engine.data
    found = ids_beginning(data.user_ids, query.strip(), limit)
    return {"users": [{"id": data.user_ids[u], "items": int(data.user_counts[u])} for u in found]}


def user(engine: Engine, identifier: str) -> Answer:
    """A user's items, newest first, and how open the next one is."""
    data = engine.data
    index = int(engine.known([identifier], "user")[0])
    (lists,) = engine.ranker.people(torch.tensor([index])).lists(Choice(k=1))
    assert lists.entropy is not None
    history = data.items_of(index)[::-1][:MAX_LISTED].tolist()
    return {
        "id": data.user_ids[index],
        "history": [engine.item(item) for item in history],
        "entropy": float(lists.entropy),
        "effective_items": float(lists.entropy.exp()) if lists.items[0, 0] >= 0 else 0.0,
    }


def items(engine: Engine, query: str, limit: int) -> Answer:
    """The most popular items, or those whose id or title meets the query."""
    counts = engine.data.item_counts
    if query.strip():
        by_id = ids_beginning(engine.data.item_ids, query.strip(), limit)
        by_title = sorted(engine.titles.with_words(query), key=lambda item: -counts[item])
        found = list(dict.fromkeys([*by_id, *by_title]))[:limit]
    else:
        found = engine.by_popularity[:limit].tolist()
    return {"items": [engine.item(item) | {"popularity": int(counts[item])} for item in found]}


def similar(engine: Engine, identifier: str, k: int) -> Answer:
    """The items most similar to one."""
    ids = engine.data.item_ids
    index = int(engine.known([identifier], "item")[0])
    near = engine.ranker.similar_items(ids[index], k)
    places = ids.indices(near["item_id"].to_list()).tolist()
    scores = near["score"].to_list()
    return {
        "items": [
            engine.item(place) | {"score": score}
            for place, score in zip(places, scores, strict=True)
        ]
    }


def card(engine: Engine) -> Answer:
    """What is known of the model and of how it came about."""
    return {
        "model": engine.fingerprint,
        "method": engine.ranker.method,
        "summary": engine.ranker.spec.summary,
        **{key: engine.manifest[key] for key in ON_THE_CARD},
        "calibration": engine.manifest.get("calibration"),
        "index": engine.index,
        "metrics": engine.manifest.get("metrics"),
    }


DIGITS = 19
"""Decimal digits of a 64-bit integer, at most."""


def ids_beginning(vocabulary: Vocabulary, query: str, limit: int) -> list[int]:
    """The indices of the first ids that begin with the query.

    >>> ids_beginning(Vocabulary([1, 5, 12, 100, 130]), "1", limit=3)
    [0, 2, 3]
    >>> ids_beginning(Vocabulary(["tea", "ten", "toast"]), "te", limit=9)
    [0, 1]
    """
    if not query:
        return list(range(min(limit, len(vocabulary))))
    found = _text if vocabulary.is_text else _numbers
    return list(islice(found(vocabulary.ids, query), limit))


def _text(ids: NDArray[Any], query: str) -> Iterator[int]:
    """Text ids stand in order, so those with the same beginning stand together."""
    candidates = range(bisect_left(ids, query), len(ids))
    return takewhile(lambda index: ids[index].startswith(query), candidates)


def _numbers(ids: NDArray[Any], query: str) -> Iterator[int]:
    """The numbers that begin with 12 are 12, 120 to 129, 1200 to 1299 and so on."""
    digits = query.removeprefix("-")
    negative = digits != query
    if not (digits.isascii() and digits.isdigit()) or (digits.startswith("0") and digits != "0"):
        return
    for more in range(DIGITS - len(digits) + 1 if digits != "0" else 1):
        low, high = int(digits) * 10**more, (int(digits) + 1) * 10**more - 1
        if low >= 2**63:
            return
        high = min(high, 2**63 - 1)
        if negative:
            low, high = -high, -low
        start, end = np.searchsorted(ids, low), np.searchsorted(ids, high, side="right")
        yield from range(int(start), int(end))
