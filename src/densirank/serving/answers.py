"""Requests for lists, answered: most of them together, the others one by one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import orjson
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.ranker import Ranker
from densirank.ranking.explain import contributions_to
from densirank.ranking.lists import Choice, People, probabilities
from densirank.ranking.sampling import Slates
from densirank.ranking.topk import Lists
from densirank.serving.engine import Answer, Engine, Indices
from densirank.serving.errors import unknown
from densirank.serving.schema import RecommendRequest

REASONS = 5
"""Past items that are named for a listed one."""
LOOKED_AT = 100
"""Past items that are looked at for reasons, the newest: each is one more history to fold in."""
SEEDS = 2**31
MANY = 2000
"""Listed items from which on a request is answered apart, so that it holds up no other."""


@dataclass(frozen=True, eq=False)
class Plain:
    """The best ``k`` items of some known users: what most requests ask for."""

    users: Indices
    k: int
    filter_seen: bool

    @property
    def size(self) -> int:
        return len(self.users)


def plain(engine: Engine, request: RecommendRequest) -> Plain | None:
    """The same request as indices, if it is for not too many known users' best items."""
    if request.users is None or not request.is_plain or request.size * request.k > MANY:
        return None
    users = engine.indices(request.users, "user")
    if (users >= 0).all():
        return Plain(users, request.k, request.filter_seen)
    if request.unknown == "error":
        raise unknown("user", request.users[int(np.argmin(users >= 0))])
    return None


def plain_answers(engine: Engine, requests: Sequence[Plain]) -> list[bytes]:
    """JSON answers to plain requests that agree on what is filtered, all computed at once."""
    users = np.concatenate([request.users for request in requests])
    choice = Choice(max(request.k for request in requests), requests[0].filter_seen)
    results = _results(engine, _known(engine, users), choice)
    answers = []
    for request in requests:
        own = [next(results) for _ in range(request.size)]
        for result in own:
            del result["items"][request.k :]
        answers.append(_answer(engine, None, own))
    return answers


def answer(engine: Engine, request: RecommendRequest) -> bytes:
    """The JSON answer to a request of any kind."""
    seed = secrets.randbelow(SEEDS) if request.seed is None else request.seed
    choice = Choice(
        request.k,
        request.filter_seen,
        None if request.items is None else _items(engine, request.items),
        _items(engine, request.exclude) if request.exclude else None,
        seed if request.sample else None,
        request.temperature,
        request.approximate,
    )
    if request.approximate:
        engine.ranker.required_index()  # read once, here, for everybody who is folded in as well
    results: list[Answer] = [{}] * request.size
    for group in _groups(engine, request):
        rows = group.people.rows.tolist()
        for row, place, result in zip(
            rows, group.places, _results(engine, group, choice), strict=True
        ):
            if request.explain and group.ranker is not None:
                _explain(engine, group.ranker, row, result["items"])
            results[place] = result
    return _answer(engine, choice.seed, results)


def _answer(engine: Engine, seed: int | None, results: list[Answer]) -> bytes:
    return orjson.dumps({"model": engine.fingerprint, "seed": seed, "results": results})


@dataclass(frozen=True, eq=False)
class Group:
    """People of one kind among those of a request."""

    people: People
    ids: Sequence[int | str | None]  # as they are told in the answer
    places: list[int]  # in the request
    ranker: Ranker | None = None  # that can explain their lists


def _groups(engine: Engine, request: RecommendRequest) -> Iterator[Group]:
    if request.users is not None:
        users = engine.indices(request.users, "user")
        familiar = users >= 0
        if request.unknown == "error" and not familiar.all():
            raise unknown("user", request.users[int(np.argmin(familiar))])
    else:
        assert request.histories is not None
        how = engine.known if request.unknown == "error" else engine.indices
        histories = [how(history, "item") for history in request.histories]
        familiar = np.array([(history >= 0).any() for history in histories])
    ours, others = (np.flatnonzero(some).tolist() for some in (familiar, ~familiar))
    if ours and request.users is not None:
        yield replace(_known(engine, users[ours]), places=ours)
    elif ours:
        yield _folded_in(engine, [histories[place][histories[place] >= 0] for place in ours], ours)
    if others:
        ids = [None if request.users is None else request.users[place] for place in others]
        people = engine.ranker.unknown_users(Vocabulary(np.arange(len(others))))
        yield Group(people, ids, others)


def _known(engine: Engine, users: Indices) -> Group:
    ids = [engine.data.user_ids[user] for user in users.tolist()]
    people = engine.ranker.people(torch.from_numpy(users))
    return Group(people, ids, list(range(len(ids))), engine.ranker)


def _folded_in(engine: Engine, histories: Sequence[Indices], places: list[int]) -> Group:
    """People who are known by their items alone (item indices, none of them without any)."""
    users = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    items = engine.data.item_ids.ids[np.concatenate(histories)]
    folded = engine.ranker.fold_in(Interactions.from_pairs(users, items, ordered=True))
    rows = torch.arange(len(histories))
    return Group(folded.people(rows), [None] * len(rows), places, folded)


def _results(engine: Engine, group: Group, choice: Choice) -> Iterator[Answer]:
    """One result for each of some people, in their order."""
    people, people_ids = group.people, iter(group.ids)
    for lists in people.lists(choice):
        drawn = lists.log_propensities if isinstance(lists, Slates) else None
        names = engine.data.item_ids.ids[lists.items.numpy()].tolist()
        columns = (lists.items.tolist(), lists.scores.tolist(), *_spread(lists, people))
        rows = zip(names, *columns, strict=True)
        for row, (ids, items, scores, likely, entropy, effective) in enumerate(rows):
            length = items.index(-1) if items[-1] < 0 else len(items)
            if not length and effective is not None:
                effective = 0.0
            propensities = [None] * len(items) if drawn is None else drawn[row].tolist()
            entries = zip(ids, items, scores, likely, propensities, strict=True)
            yield {
                "user": next(people_ids),
                "kind": people.kind,
                "items": [
                    {
                        "id": identifier,
                        "title": engine.titles[item],
                        "score": score,
                        "probability": probability,
                        "log_propensity": propensity,
                        "because": None,
                    }
                    for identifier, item, score, probability, propensity in islice(entries, length)
                ],
                "entropy": entropy,
                "effective_items": effective,
            }


def _spread(lists: Lists, people: People) -> tuple[list[Any], list[Any], list[Any]]:
    """(probabilities, entropies, effective items); None where an index has not looked at all."""
    likely = probabilities(lists, people.density)
    if likely is None or lists.entropy is None:
        nothing = [None] * len(lists.users)
        return [[None] * lists.items.shape[1]] * len(lists.users), nothing, nothing
    return likely.tolist(), lists.entropy.tolist(), lists.entropy.exp().tolist()


def _explain(engine: Engine, ranker: Ranker, row: int, items: list[Answer]) -> None:
    """Say of each listed item which of the person's past items speak most for it."""
    history = ranker.interactions_.items_of(row)[-LOOKED_AT:]
    listed = engine.indices([item["id"] for item in items], "item").tolist()
    if not listed:
        return
    added = contributions_to(ranker.trained, history, listed, engine.data.item_ids)
    for item, index, gains in zip(items, listed, added, strict=True):
        most = np.argsort(-gains, kind="stable")
        item["because"] = [
            {**engine.item(int(history[past])), "contribution": float(gains[past])}
            for past in most[: REASONS + 1]
            if history[past] != index
        ][:REASONS]


def _items(engine: Engine, ids: Sequence[int | str]) -> Tensor:
    return torch.from_numpy(engine.known(ids, "item"))
