"""Users, items, similar items and the model card, for the page and other clients."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from densirank.data.vocabulary import Vocabulary
from densirank.serving.engine import Answer, Engine
from densirank.serving.schema import MAX_LISTED

CARD_KEYS = ("settings", "seed", "created", "densirank", "data", "training")


def users(engine: Engine, query: str, limit: int) -> Answer:
    """Users whose id starts with the query."""
    data = engine.data
    found = ids_with_prefix(data.user_ids, query.strip(), limit)
    return {"users": [{"id": data.user_ids[u], "items": int(data.user_counts[u])} for u in found]}


def user(engine: Engine, identifier: str) -> Answer:
    """A user's items, newest first, and the entropy of the next one."""
    data = engine.data
    index = int(engine.known([identifier], "user")[0])
    _, entropy, effective_items = engine.ranker.entropy(data.user_ids[index]).row(0)
    history = data.items_of(index)[::-1][:MAX_LISTED].tolist()
    return {
        "id": data.user_ids[index],
        "history": [engine.item(item) for item in history],
        "entropy": entropy,
        "effective_items": effective_items,
    }


def items(engine: Engine, query: str, limit: int) -> Answer:
    """The most popular items, or the items whose id or title matches the query."""
    counts = engine.data.item_counts
    if query.strip():
        by_id = ids_with_prefix(engine.data.item_ids, query.strip(), limit)
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
    rows = zip(places, near["score"], strict=True)
    return {"items": [engine.item(place) | {"score": score} for place, score in rows]}


def card(engine: Engine) -> Answer:
    """The method, the settings, the data and the training of the model."""
    return {
        "model": engine.fingerprint,
        "method": engine.ranker.method,
        "summary": engine.ranker.spec.summary,
        **{key: engine.manifest[key] for key in CARD_KEYS},
        "calibration": engine.manifest.get("calibration"),
        "index": engine.index,
        "metrics": engine.manifest.get("metrics"),
    }


MAX_DIGITS = 19
"""Decimal digits of a 64-bit integer."""


def ids_with_prefix(vocabulary: Vocabulary, query: str, limit: int) -> list[int]:
    """The indices of the first ids that start with the query.

    >>> ids_with_prefix(Vocabulary([1, 5, 12, 100, 130]), "1", limit=3)
    [0, 2, 3]
    >>> ids_with_prefix(Vocabulary(["tea", "ten", "toast"]), "te", limit=9)
    [0, 1]
    """
    if not query:
        return list(range(min(limit, len(vocabulary))))
    found = _text if vocabulary.is_text else _numbers
    return list(islice(found(vocabulary.ids, query), limit))


def _text(ids: NDArray[Any], query: str) -> Iterator[int]:
    """Text ids are sorted, so the ids with a common prefix are adjacent."""
    candidates = range(bisect_left(ids, query), len(ids))
    return takewhile(lambda index: ids[index].startswith(query), candidates)


def _numbers(ids: NDArray[Any], query: str) -> Iterator[int]:
    """The integers that start with 12 are 12, 120 to 129, 1200 to 1299 and so on."""
    digits = query.removeprefix("-")
    negative = digits != query
    if not (digits.isascii() and digits.isdigit()) or (digits.startswith("0") and digits != "0"):
        return
    for more in range(MAX_DIGITS - len(digits) + 1 if digits != "0" else 1):
        low, high = int(digits) * 10**more, (int(digits) + 1) * 10**more - 1
        if low >= 2**63:
            return
        high = min(high, 2**63 - 1)
        if negative:
            low, high = -high, -low
        start, end = np.searchsorted(ids, low), np.searchsorted(ids, high, side="right")
        yield from range(int(start), int(end))
