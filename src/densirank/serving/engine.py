"""The seam between HTTP and the ranker: validated requests in, answers as plain data out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from numpy.typing import NDArray

from densirank.csr import Rows
from densirank.data.vocabulary import Vocabulary
from densirank.ranker import Ranker, load
from densirank.ranking.topk import Lists, top_k
from densirank.serving.config import MAX_LISTED
from densirank.serving.problems import Problem, unknown
from densirank.serving.schema import RecommendRequest
from densirank.serving.search import ids_beginning
from densirank.serving.titles import Titles, read_titles
from densirank.storage import MANIFEST

Answer = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Plain:
    """The best ``k`` items of some known users: what most requests ask for."""

    users: NDArray[np.int64]
    k: int
    filter_seen: bool

    @property
    def size(self) -> int:
        return len(self.users)


@dataclass(frozen=True, eq=False)
class Engine:
    """One loaded model and everything that is made once so that requests need not make it."""

    ranker: Ranker
    manifest: Answer
    fingerprint: str  # of the model: its manifest names every file and its SHA-256
    titles: Titles
    seen: Rows
    by_popularity: NDArray[np.int64]

    @classmethod
    def load(cls, folder: Path, titles: Path | None) -> Engine:
        """Read a model folder and the titles of its items."""
        ranker = load(folder, "cpu")
        manifest = (folder / MANIFEST).read_bytes()
        data = ranker.interactions_
        engine = cls(
            ranker,
            json.loads(manifest),
            hashlib.sha256(manifest).hexdigest()[:16],
            read_titles(titles, data.item_ids),
            Rows.of(data, ranker.scorer_.device),
            np.argsort(-data.item_counts, kind="stable"),
        )
        engine.plain_answers([Plain(np.zeros(1, dtype=np.int64), 1, True)])  # fills caches
        return engine

    # --- lists -------------------------------------------------------------------------------

    def plain(self, request: RecommendRequest) -> Plain | None:
        """The same request as indices, if it is for known users' best items and nothing else."""
        if request.users is None or not request.is_plain:
            return None
        users = _indices(self.ranker.interactions_.user_ids, request.users)
        if (users < 0).any():
            if request.unknown == "error":
                raise unknown("user", request.users[int(np.argmax(users < 0))])
            return None
        return Plain(users, request.k, request.filter_seen)

    def plain_answers(self, requests: Sequence[Plain]) -> list[bytes]:
        """JSON answers to plain requests that agree on what is filtered, all computed at once."""
        users = np.concatenate([request.users for request in requests])
        lists = self._lists(users, max(r.k for r in requests), requests[0].filter_seen)
        answers, at = [], 0
        for request in requests:
            rows = range(at, at + request.size)
            at += request.size
            results = [self._result(lists, row, request.k) for row in rows]
            answers.append(
                orjson.dumps({"model": self.fingerprint, "seed": None, "results": results})
            )
        return answers

    def answer(self, request: RecommendRequest) -> Answer:
        """The answer to a request of any kind."""
        raise Problem(501, "not_implemented", "this is not there yet")

    def _lists(self, users: NDArray[np.int64], k: int, filter_seen: bool) -> Lists:
        (lists,) = top_k(
            self.ranker.scorer_,
            torch.from_numpy(users),
            k,
            seen=self.seen if filter_seen else None,
            with_normaliser=True,
        )
        return lists

    def _result(self, lists: Lists, row: int, k: int) -> Answer:
        data = self.ranker.interactions_
        assert lists.log_normaliser is not None
        items = lists.items[row, :k]
        items = items[items >= 0]
        scores = lists.scores[row, : len(items)]
        probabilities = (scores - lists.log_normaliser[row]).exp()
        return {
            "user": data.user_ids[int(lists.users[row])],
            "kind": "known",
            "items": [
                {
                    "id": data.item_ids[item],
                    "title": self.titles[item],
                    "score": score,
                    "probability": probability,
                    "log_propensity": None,
                    "because": None,
                }
                for item, score, probability in zip(
                    items.tolist(), scores.tolist(), probabilities.tolist(), strict=True
                )
            ],
            "entropy": 0.0,
            "effective_items": 1.0,
        }

    # --- looking around ----------------------------------------------------------------------

    def users(self, query: str, limit: int) -> Answer:
        """Users whose id begins with the query."""
        data = self.ranker.interactions_
        found = ids_beginning(data.user_ids, query, limit)
        return {
            "users": [{"id": data.user_ids[u], "items": int(data.user_counts[u])} for u in found]
        }

    def user(self, identifier: str) -> Answer:
        """A user's items, newest first."""
        data = self.ranker.interactions_
        (index,) = _known(data.user_ids, [identifier], "user")
        history = data.items_of(index)[::-1][:MAX_LISTED].tolist()
        return {
            "id": data.user_ids[index],
            "history": [self._item(item) for item in history],
            "entropy": 0.0,
            "effective_items": 1.0,
        }

    def items(self, query: str, limit: int) -> Answer:
        """The most popular items, or those whose id or title meets the query."""
        data = self.ranker.interactions_
        if query.strip():
            counts = data.item_counts
            by_id = ids_beginning(data.item_ids, query.strip(), limit)
            by_title = sorted(self.titles.with_words(query), key=lambda item: -counts[item])
            found = list(dict.fromkeys([*by_id, *by_title]))[:limit]
        else:
            found = self.by_popularity[:limit].tolist()
        return {
            "items": [
                self._item(item) | {"popularity": int(data.item_counts[item])} for item in found
            ]
        }

    def similar(self, identifier: str, k: int) -> Answer:
        """The items most similar to one."""
        ids = self.ranker.interactions_.item_ids
        (index,) = _known(ids, [identifier], "item")
        near = self.ranker.similar_items(ids[index], k)
        places = ids.indices(near["item_id"].to_numpy()).tolist()
        return {
            "items": [
                self._item(place) | {"score": score}
                for place, score in zip(places, near["score"].to_list(), strict=True)
            ]
        }

    def card(self) -> Answer:
        """What is known of the model and of how it came about."""
        told = ("settings", "seed", "created", "densirank", "data", "training")
        return {
            "model": self.fingerprint,
            "method": self.ranker.method.name,
            "summary": self.ranker.method.summary,
            **{key: self.manifest[key] for key in told},
            "calibration": None,
            "index": None,
            "metrics": None,
        }

    def _item(self, item: int) -> Answer:
        return {"id": self.ranker.interactions_.item_ids[item], "title": self.titles[item]}


def _known(vocabulary: Vocabulary, ids: Sequence[int | str], what: str) -> NDArray[np.int64]:
    """The indices of ids that must be known."""
    indices = _indices(vocabulary, ids)
    if (indices < 0).any():
        raise unknown(what, ids[int(np.argmax(indices < 0))])
    return indices


def _indices(vocabulary: Vocabulary, ids: Sequence[int | str]) -> NDArray[np.int64]:
    """The indices of ids, -1 for an unknown one; numbers may be spelt out."""
    texts = any(isinstance(i, str) for i in ids)
    return vocabulary.indices([str(i) for i in ids] if texts else list(ids))
