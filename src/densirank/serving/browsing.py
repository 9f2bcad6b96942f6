"""Looking around in a model: who and what it knows, and how it came about."""

from __future__ import annotations

import torch

from densirank.ranking.people import Choice
from densirank.serving.config import MAX_LISTED
from densirank.serving.engine import Answer, Engine
from densirank.serving.search import ids_beginning

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
