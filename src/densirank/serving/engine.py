"""One loaded model, the titles of its items, and the lists it answers requests with."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.titles import Titles
from densirank.data.vocabulary import Vocabulary, named
from densirank.ranker import Ranker, load
from densirank.ranking.explain import contributions_to, weights_of
from densirank.ranking.lists import Choice, People
from densirank.serving.errors import Problem
from densirank.serving.schema import RecommendRequest
from densirank.storage import MANIFEST, read_index_manifest

Answer = dict[str, Any]
Indices = NDArray[np.int64]

MAX_REASONS = 5
"""Past items named as the reasons for a listed item."""
EXPLAINED_HISTORY = 100
"""Newest past items considered as reasons: each requires one more fold-in."""
MAX_TOGETHER = 2000
"""Listed items above which a request is computed on its own, so that it delays no others."""


@dataclass(frozen=True, eq=False)
class Engine:
    """A loaded model and what requests need of it. It never changes, so a request may keep it."""

    ranker: Ranker
    users: People  # all users of the model; a request takes some rows
    manifest: Answer
    fingerprint: str  # SHA-256 of the manifest, which has the SHA-256 of every file
    titles: Titles
    by_popularity: Indices
    index: Answer | None  # measurements of the model's index, if it has one

    @classmethod
    def load(cls, folder: Path, titles: Path | None) -> Engine:
        """Read a model folder and the titles of its items."""
        ranker = load(folder, "cpu")
        manifest = (folder / MANIFEST).read_bytes()
        described: Answer = json.loads(manifest)
        index = read_index_manifest(folder, described["files"]["vectors"]["sha256"])
        data = ranker.interactions_
        return cls(
            ranker,
            ranker.people(torch.arange(data.n_users)),
            described,
            hashlib.sha256(manifest).hexdigest()[:16],
            Titles.read(titles, data.item_ids),
            np.argsort(-data.item_counts, kind="stable"),
            None if index is None else index["measured"],
        )

    @property
    def data(self) -> Interactions:
        return self.ranker.interactions_

    def item(self, index: int) -> Answer:
        """The id and the title of an item."""
        return {"id": self.data.item_ids[index], "title": self.titles.of_item[index]}

    def known(self, ids: Sequence[int | str], what: Literal["user", "item"]) -> Indices:
        """The indices of ids; an unknown id is an error."""
        indices = self.indices(ids, what)
        if (indices < 0).any():
            unknown = dict.fromkeys(i for i, at in zip(ids, indices, strict=True) if at < 0)
            raise Problem(
                404, f"unknown_{what}", f"the model does not know the {what} {named(unknown)}"
            )
        return indices

    def indices(self, ids: Sequence[int | str], what: Literal["user", "item"]) -> Indices:
        """The indices of ids, -1 for an unknown id; an integer id may be written as text."""
        vocabulary = self.users.user_ids if what == "user" else self.data.item_ids
        any_text = any(isinstance(i, str) for i in ids)
        return vocabulary.indices([str(i) for i in ids] if any_text else list(ids))


@dataclass(frozen=True, eq=False)
class Plain:
    """A request for the best ``k`` items of known users, without any other option."""

    users: Indices
    k: int
    filter_seen: bool

    @property
    def size(self) -> int:
        return len(self.users)


def plain(engine: Engine, request: RecommendRequest) -> Plain | None:
    """The request as user indices, if it is a plain one that can be computed with others."""
    if not request.is_plain or request.size * request.k > MAX_TOGETHER:
        return None
    users = _find(engine, request)(request.users or (), "user")
    if (users < 0).any() or (engine.data.user_counts[users] == 0).any():
        return None
    return Plain(users, request.k, request.filter_seen)


def answer_together(engine: Engine, requests: Sequence[Plain]) -> list[bytes]:
    """JSON answers to plain requests with the same ``filter_seen``, computed in one batch."""
    users = np.concatenate([request.users for request in requests])
    choice = Choice(max(request.k for request in requests), requests[0].filter_seen)
    results = _results(engine, _known(engine, users), choice)
    answers = []
    for request in requests:
        own = [next(results) for _ in range(request.size)]
        for result in own:
            del result["items"][request.k :]
        answers.append(_json(engine, None, 0, own))
    return answers


def answer(engine: Engine, request: RecommendRequest) -> bytes:
    """The JSON answer to any request for lists."""
    seed = secrets.randbelow(2**31) if request.seed is None else request.seed
    given = ("items", request.items), ("exclude", request.exclude)
    constraints = {key: engine.indices(ids, "item") for key, ids in given if ids}
    choice = Choice(
        request.k,
        request.filter_seen,
        _known_items(constraints.get("items")),
        _known_items(constraints.get("exclude")),
        seed if request.sample else None,
        request.temperature,
        request.approximate,
        request.rank_by,
    )
    if request.approximate:
        engine.ranker.required_index()  # read it once: the rankers of fold-ins are copies
    results: list[Answer] = [_skipped(request, place) for place in range(request.size)]
    for group in _groups(engine, request):
        answers = zip(group.places, _results(engine, group, choice), strict=True)
        for (place, result), row in zip(answers, group.people.rows.tolist(), strict=True):
            if request.explain and group.ranker is not None:
                _explain(engine, group.ranker, row, result["items"])
            results[place] = result
    in_histories = (engine.indices(history, "item") for history in request.histories or ())
    unknown_items = sum(int((found < 0).sum()) for found in (*constraints.values(), *in_histories))
    return _json(engine, choice.seed, unknown_items, results)


def _skipped(request: RecommendRequest, place: int) -> Answer:
    """The result of an unknown person who gets no list."""
    user = request.users[place] if request.users else None
    return {"user": user, "kind": "skipped", "items": [], "entropy": None, "effective_items": None}


def _json(engine: Engine, seed: int | None, unknown_items: int, results: list[Answer]) -> bytes:
    return orjson.dumps(
        {
            "model": engine.fingerprint,
            "seed": seed,
            "unknown_items": unknown_items,
            "results": results,
        }
    )


def _find(
    engine: Engine, request: RecommendRequest
) -> Callable[[Sequence[int | str], Literal["user", "item"]], Indices]:
    """How ids are looked up: ``unknown`` says whether an unknown id is an error."""
    return engine.known if request.unknown in (None, "error") else engine.indices


def _known_items(indices: Indices | None) -> Tensor | None:
    """The items that the model knows; the others are ignored, and counted in the answer."""
    return None if indices is None else torch.from_numpy(indices[indices >= 0])


@dataclass(frozen=True, eq=False)
class Group:
    """The people of one kind in a request."""

    people: People
    ids: Sequence[int | str | None]  # as the answer names them
    places: Sequence[int]  # of their results in the answer
    ranker: Ranker | None = None  # which can explain their lists


def _groups(engine: Engine, request: RecommendRequest) -> Iterator[Group]:
    """Known users or folded-in histories, then all others, unless they are skipped.

    Known users without items get the popularity fallback.
    """
    find = _find(engine, request)
    histories = [_history(engine, request, history) for history in request.histories or ()]
    if request.users is not None:
        users = find(request.users, "user")
        is_known = users >= 0
    else:
        is_known = np.array([(history >= 0).any() for history in histories])
    known, unknown = (np.flatnonzero(some).tolist() for some in (is_known, ~is_known))
    if known and request.users is not None:
        without = engine.data.user_counts[users[known]] == 0
        if without.any():
            places = np.array(known)
            known = places[~without].tolist()
            people = engine.ranker.people_without_items(torch.from_numpy(users[places[without]]))
            yield replace(_group(engine, people), places=places[without].tolist())
    if known and request.users is not None:
        yield replace(_known(engine, users[known]), places=known)
    elif known:
        yield _folded_in(engine, [histories[place] for place in known], known)
    if unknown and request.unknown != "skip":
        people = engine.ranker.unknown_users(Vocabulary(np.arange(len(unknown))))
        ids = [request.users[place] if request.users else None for place in unknown]
        yield Group(people, ids, unknown)


def _history(engine: Engine, request: RecommendRequest, history: Sequence[int | str]) -> Indices:
    """The indices of a history's items, -1 for an unknown one; one at least has to be known.

    What a history without a known item gets is up to ``unknown``.
    """
    found = engine.indices(history, "item")
    return found if (found >= 0).any() else _find(engine, request)(history, "item")


def _known(engine: Engine, users: Indices) -> Group:
    people = replace(engine.users, rows=torch.from_numpy(users))
    return replace(_group(engine, people), ranker=engine.ranker)


def _group(engine: Engine, people: People) -> Group:
    """Users of the model by the ids that it knows them by."""
    ids = [engine.users.user_ids[user] for user in people.rows.tolist()]
    return Group(people, ids, range(len(ids)))


def _folded_in(engine: Engine, histories: Sequence[Indices], places: list[int]) -> Group:
    """People given by item indices, -1 for an unknown item; each has at least one known item."""
    known = [history[history >= 0] for history in histories]
    users = np.repeat(np.arange(len(known)), [len(history) for history in known])
    items = engine.data.item_ids.ids[np.concatenate(known)]
    folded = engine.ranker.fold_in(Interactions.from_pairs(users, items, ordered=True))
    people = folded.people(torch.arange(len(known)))
    return Group(people, [None] * len(known), places, folded)


def _results(engine: Engine, group: Group, choice: Choice) -> Iterator[Answer]:
    """One result for each person of a group, in their order."""
    people, ids = group.people, iter(group.ids)
    for lists in people.lists(choice):
        names = engine.data.item_ids.ids[lists.items.numpy()].tolist()
        nothing = [[None] * len(names[0])] * len(names)
        items = (lists.items, lists.scores, people.probabilities(lists), lists.log_propensities)
        spread = (lists.entropy, lists.effective_items)
        rows = zip(
            names,
            *(nothing if part is None else part.tolist() for part in items),
            *([None] * len(names) if part is None else part.tolist() for part in spread),
            strict=True,
        )
        for *columns, entropy, effective_items in rows:
            yield {
                "user": next(ids),
                "kind": people.kind,
                "items": [
                    {
                        "id": name,
                        "title": engine.titles.of_item[item],
                        "score": score,
                        "probability": probability,
                        "log_propensity": log_propensity,
                        "because": None,
                    }
                    for name, item, score, probability, log_propensity in zip(*columns, strict=True)
                    if item >= 0
                ],
                "entropy": entropy,
                "effective_items": effective_items,
            }


def _explain(engine: Engine, ranker: Ranker, row: int, items: list[Answer]) -> None:
    """Add to each listed item the past items that contribute most to its score."""
    history = ranker.interactions_.items_of(row)[-EXPLAINED_HISTORY:]
    listed = engine.indices([item["id"] for item in items], "item").tolist()
    if not listed:
        return
    weights = weights_of(ranker.interactions_, row)
    recent = None if weights is None else weights[-EXPLAINED_HISTORY:]
    gains = contributions_to(ranker.trained, history, listed, ranker.interactions_, recent)
    for item, index, gain in zip(items, listed, gains, strict=True):
        order = np.argsort(-gain, kind="stable")
        item["because"] = [
            {**engine.item(int(history[past])), "contribution": float(gain[past])}
            for past in order[: MAX_REASONS + 1]
            if history[past] != index
        ][:MAX_REASONS]
