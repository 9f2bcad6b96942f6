"""Conformance checks of methods, for built-in and third-party ones.

Register a method, then let pytest run each check on it::

    import pytest
    from densirank.testing import METHOD_CHECKS, Subject

    MINE = Subject("my-method", {"dim": 8})

    @pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_the_contract(check):
        check(MINE)

A check raises AssertionError with a message. The data are a checkerboard: even users have even
items and odd users have odd ones, except for a few held-out pairs. Every method that learns from
co-occurrence must rank the held-out items first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from polars.testing import assert_frame_equal
from scipy.special import softmax

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.methods import Method, method_named
from densirank.ranker import Ranker, load

SIZE = 10
"""The number of users, and of items, of the checkerboard."""
HELD_OUT = {0: 8, 3: 5, 4: 6, 7: 1}
"""User → the held-out item of the checkerboard."""


def checkerboard() -> Interactions:
    """The training interactions, without the held-out pairs."""
    pairs = [(u, i) for u in range(SIZE) for i in range(SIZE) if (u + i) % 2 == 0]
    kept = [pair for pair in pairs if pair not in HELD_OUT.items()]
    return Interactions.from_pairs(*zip(*kept, strict=True))


@dataclass(frozen=True)
class Subject:
    """A method to check, and settings with which it learns the checkerboard."""

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    personal: bool = True
    """Whether lists differ between users; those of popularity are the same for all."""
    chance: bool = True
    """Whether the seed changes the result."""

    @property
    def spec(self) -> Method:
        """The registered method."""
        return method_named(self.method)

    def fit(self, seed: int = 0) -> Ranker:
        """Fit a new ranker."""
        return Ranker(self.method, seed=seed, device="cpu", **self.settings).fit(checkerboard())

    @cached_property
    def ranker(self) -> Ranker:
        """A ranker, fitted once and cached."""
        return self.fit()


def held_out_items_are_found(subject: Subject) -> None:
    """A personalised method ranks the held-out item first."""
    if not subject.personal:
        return
    best = subject.ranker.recommend(list(HELD_OUT), k=1)
    found = dict(best.select("user_id", "item_id").iter_rows())
    assert found == HELD_OUT, f"the held-out items are {HELD_OUT}, but the lists begin with {found}"


def lists_hold_every_unseen_item_once(subject: Subject) -> None:
    """A full list holds every unseen item exactly once, and no seen item."""
    seen = set(subject.ranker.interactions_.pairs())
    listed = list(subject.ranker.recommend(k=SIZE).select("user_id", "item_id").iter_rows())
    assert len(set(listed)) == len(listed), "a list holds an item twice"
    every = {(u, i) for u in range(SIZE) for i in range(SIZE)}
    assert set(listed) == every - seen, "the lists do not hold exactly the unseen items"


def items_had_keep_their_scores(subject: Subject) -> None:
    """With ``filter_seen=False``, the user's own items rank above items of other users only."""
    if not subject.personal:
        return
    again = subject.ranker.recommend([2, 5], k=5, filter_seen=False)
    for user, rows in again.group_by("user_id"):
        listed = set(rows["item_id"].to_list())
        expected = {item for item in range(SIZE) if (item + int(user[0])) % 2 == 0}
        assert listed == expected, f"user {user[0]} had {expected}, but the list holds {listed}"


def lists_go_from_the_best_to_the_worst(subject: Subject) -> None:
    """Ranks count from 1, and scores or probabilities do not increase down a list."""
    for _, rows in subject.ranker.recommend(k=SIZE).group_by("user_id", maintain_order=True):
        assert rows["rank"].to_list() == list(range(1, len(rows) + 1)), "ranks have gaps"
        assert rows["score"].is_sorted(descending=True), "scores rise down a list"
    for _, rows in subject.ranker.recommend(k=SIZE, rank_by="probability").group_by("user_id"):
        assert rows["probability"].is_sorted(descending=True), "probabilities rise down a list"


def probabilities_are_the_base_density_times_exp_of_the_scores(subject: Subject) -> None:
    """p(i|u) ∝ p0(i) · exp(f_u(i)) sums to 1 over the items of a full list."""
    settings, data = subject.ranker.settings_.to_json(), subject.ranker.interactions_
    log_base = settings.get("base_exponent", 0) * np.log(np.maximum(data.item_counts, 1))
    for filter_seen in (True, False):
        lists = subject.ranker.recommend(k=SIZE, filter_seen=filter_seen)
        for _, rows in lists.group_by("user_id"):
            given = rows["probability"].to_numpy()
            base = log_base[data.item_ids.indices(rows["item_id"].to_numpy())]
            expected = softmax(rows["score"].to_numpy().astype(np.float64) + base)
            np.testing.assert_allclose(given.sum(), 1, rtol=1e-5)
            np.testing.assert_allclose(given, expected, rtol=1e-4)


def scores_are_dot_products_and_a_sparse_part(subject: Subject) -> None:
    """f_u(i) = e_u · e_i plus the sparse part of a filter or of an item–item model."""
    scorer = subject.ranker.scorer_
    users, items = scorer.user_vectors, scorer.item_vectors
    assert users.isfinite().all(), "user vectors are not finite"
    assert items.isfinite().all(), "item vectors are not finite"
    expected = users @ items.T
    if scorer.sparse_part is not None:
        part = scorer.sparse_part.take(torch.arange(len(users)))
        assert part.values.isfinite().all(), "the sparse part is not finite"
        expected.index_put_((part.rows.row_of_entry, part.rows.columns), part.values, True)
    rows = subject.ranker.recommend(k=SIZE)
    u, i = (rows[column].to_numpy() for column in ("user_id", "item_id"))
    listed = rows["score"].to_numpy()
    np.testing.assert_allclose(listed, expected.numpy()[u, i], rtol=1e-4, atol=1e-5)


def similar_items_were_had_by_the_same_people(subject: Subject) -> None:
    """The items most similar to an even item are the other even items, sorted by similarity."""
    if not subject.personal:
        return
    similar = subject.ranker.similar_items(0, k=4)
    assert set(similar["item_id"].to_list()) == {2, 4, 6, 8}, "odd items are near to an even one"
    assert similar["score"].is_sorted(descending=True), "similarities rise down a list"
    assert similar["rank"].to_list() == [1, 2, 3, 4], "ranks have gaps"


def the_seed_decides(subject: Subject) -> None:
    """The same seed gives bitwise identical lists, another seed other scores."""
    lists = subject.ranker.recommend()
    assert_frame_equal(subject.fit().recommend(), lists, check_exact=True)
    if subject.chance:
        other = subject.fit(seed=1).recommend()["score"]
        assert other.to_list() != lists["score"].to_list(), "another seed gives the same scores"


def a_saved_ranker_comes_back_the_same(subject: Subject) -> None:
    """A loaded ranker has the same settings and seed and gives bitwise identical lists."""
    ranker = subject.ranker
    with TemporaryDirectory() as folder:
        ranker.save(Path(folder, "model"))
        loaded = load(Path(folder, "model"), device="cpu")
    assert (loaded.method, loaded.seed) == (ranker.method, ranker.seed), "method or seed changed"
    assert loaded.settings_ == ranker.settings_, "settings changed"
    for filter_seen in (True, False):
        expected = ranker.recommend(k=SIZE, filter_seen=filter_seen)
        actual = loaded.recommend(k=SIZE, filter_seen=filter_seen)
        assert_frame_equal(actual, expected, check_exact=True)
    assert_frame_equal(loaded.similar_items(0), ranker.similar_items(0), check_exact=True)


def histories_are_folded_in_or_refused(subject: Subject) -> None:
    """A new user with even items gets even items, or fold_in raises that it is unsupported."""
    history = [("stranger", item) for item in (0, 2, 4, 6)]
    if not subject.spec.model_type.folds_in:
        _refuses(lambda: subject.ranker.fold_in(history), "fold")
        return
    lists = subject.ranker.fold_in(history).recommend("stranger", k=SIZE)
    assert set(lists["item_id"].to_list()) == {1, 3, 5, 7, 8, 9}, "not what the history leaves"
    assert lists["score"].is_finite().all(), "scores are not finite"
    best = lists["item_id"][0]
    assert best == 8 or not subject.personal, f"item 8 was expected first, not {best}"


def an_update_keeps_what_is_known_and_learns_what_is_new(subject: Subject) -> None:
    """An update adds new users and items, and does not change the original ranker."""
    before = subject.ranker.recommend(k=SIZE)
    updated = subject.ranker.update([(SIZE, 0), (SIZE, SIZE), (0, SIZE)])
    data = updated.interactions_
    assert data.user_ids.ids.tolist() == list(range(SIZE + 1)), "users are missing"
    assert data.item_ids.ids.tolist() == list(range(SIZE + 1)), "items are missing"
    assert len(data) == len(subject.ranker.interactions_) + 3, "pairs are missing"
    assert updated.recommend(SIZE, k=SIZE)["score"].is_finite().all(), "scores are not finite"
    assert_frame_equal(subject.ranker.recommend(k=SIZE), before, check_exact=True)


def settings_say_what_they_are(subject: Subject) -> None:
    """Every setting has a help text and a valid default; unknown settings are refused by name."""
    kind, settings = subject.spec.settings_type, subject.spec.settings()
    for key, text in kind.help().items():
        assert text.endswith("."), f"the help text of {key} does not end with a full stop"
    as_text = {key: "none" if v is None else str(v) for key, v in settings.to_json().items()}
    assert kind(**kind.parse(as_text)) == settings, "settings cannot be parsed from their text form"
    _refuses(lambda: Ranker(subject.method, no_such_setting=1), "no_such_setting")


def the_search_space_is_allowed(subject: Subject) -> None:
    """The default search space holds only settings of the method, with valid values."""
    from densirank.search.space import space_for

    for ordered in (False, True):
        for key, dimension in space_for(subject.spec, {}, ordered).items():
            for value in dimension.grid().values:
                assert getattr(subject.spec.settings(**{key: value}), key) == value


def _refuses(ask: Callable[[], object], word: str) -> None:
    said = ""
    try:
        ask()
    except InputError as error:
        said = str(error)
    assert word in said, f"expected an error that mentions {word!r}, not {said!r}"


METHOD_CHECKS: tuple[Callable[[Subject], None], ...] = (
    held_out_items_are_found,
    lists_hold_every_unseen_item_once,
    items_had_keep_their_scores,
    lists_go_from_the_best_to_the_worst,
    probabilities_are_the_base_density_times_exp_of_the_scores,
    scores_are_dot_products_and_a_sparse_part,
    similar_items_were_had_by_the_same_people,
    the_seed_decides,
    a_saved_ranker_comes_back_the_same,
    histories_are_folded_in_or_refused,
    an_update_keeps_what_is_known_and_learns_what_is_new,
    settings_say_what_they_are,
    the_search_space_is_allowed,
)
