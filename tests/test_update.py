"""More data: a model goes on from where it was, and knows more people and items afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from densirank import METHODS, Interactions, Ranker, load
from densirank.data.synthetic import Planted
from densirank.errors import InputError
from densirank.update import merged, update_settings

Fitted = Callable[..., Ranker]


def test_merging_keeps_all_pairs_the_new_ones_last() -> None:
    old = Interactions.from_pairs([1, 1, 2], [5, 6, 6], ordered=True)
    new = Interactions.from_pairs(["2", "0", "1"], ["5", "9", "5"], ordered=True)
    both = merged(old, new)
    assert both.ordered
    assert list(both.pairs()) == [(0, 9), (1, 6), (1, 5), (2, 6), (2, 5)]
    unordered = Interactions.from_pairs([1], [5])
    assert merged(old, unordered).ordered  # what is new is later
    assert not merged(unordered, new).ordered


def test_ids_of_another_kind_are_refused_by_name() -> None:
    old = Interactions.from_pairs([1, 2], [5, 6])
    with pytest.raises(InputError, match="user ids of the model are integers, but 'ann' is not"):
        merged(old, Interactions.from_pairs(["ann"], [5]))
    with pytest.raises(InputError, match="item ids of the model are integers, but 'tea' is not"):
        merged(old, Interactions.from_pairs([1], ["tea"]))


def test_the_end_of_the_fits_schedule_is_run_again() -> None:
    settings = METHODS["wd-lgcn"].settings(iterations=100, learning_rate=0.2)
    usual = update_settings(settings, None)
    assert usual.iterations == 50
    assert usual.learning_rate == pytest.approx(0.1)
    longer = update_settings(settings, 300)
    assert longer.iterations == 300
    assert longer.learning_rate == pytest.approx(0.2)
    made = METHODS["als"].settings()
    assert update_settings(made, None) == made


@pytest.mark.parametrize("method", METHODS)
def test_old_ids_stay_and_new_ones_are_known(
    method: str, fitted: Fitted, there: Interactions
) -> None:
    ranker = fitted(method, iterations=10)
    before = ranker.recommend(k=5)
    item = there.item_ids[0]
    updated = ranker.update([(1000, item), (1000, 2000), (there.user_ids[0], 2000)])
    data = updated.interactions_
    assert set(there.user_ids.ids) | {1000} == set(data.user_ids.ids)
    assert set(there.item_ids.ids) | {2000} == set(data.item_ids.ids)
    assert len(data) == len(there) + 3
    listed = updated.recommend(1000, k=100)["item_id"].to_list()
    assert set(listed) == set(there.item_ids.ids) - {item}
    assert updated.settings == ranker.settings
    assert ranker.interactions_ is not data
    assert ranker.recommend(k=5).equals(before)


@pytest.mark.parametrize("method", ["wd-lgcn", "wd-mf"])
def test_nothing_new_changes_little(
    method: str, fitted: Fitted, there: Interactions, world: Planted
) -> None:
    ranker = fitted(method)
    updated = ranker.update(there, iterations=5)
    for old, new in zip(_vectors(ranker), _vectors(updated), strict=True):
        assert torch.cosine_similarity(old, new).mean() > 0.97
    fresh = Ranker(method, device="cpu", dim=8, iterations=5, learning_rate=0.05).fit(there)
    far = torch.cosine_similarity(_vectors(ranker)[0], _vectors(fresh)[0]).mean()
    assert far < 0.9  # as many steps from chance lead elsewhere


def _vectors(ranker: Ranker) -> tuple[torch.Tensor, torch.Tensor]:
    return ranker.scorer_.user_vectors, ranker.scorer_.item_vectors


@pytest.mark.parametrize("method", ["wd-lgcn", "wd-mf"])
def test_an_update_ranks_about_as_well_as_a_fit_of_all_data(
    method: str, fitted: Fitted, newcomers: Interactions, world: Planted
) -> None:
    settings = fitted(method).settings
    again = Ranker(method, device="cpu", dim=8, iterations=60, learning_rate=0.05).fit(world.train)
    assert again.settings == settings
    updated = fitted(method).update(newcomers)
    expected = again.evaluate(world.test, k=10)["ndcg@10"]
    assert updated.evaluate(world.test, k=10)["ndcg@10"] > 0.93 * expected


def test_known_rows_start_where_they_were_and_new_ones_where_they_belong(
    fitted: Fitted, there: Interactions, newcomers: Interactions
) -> None:
    """One step of next to no length shows where training started."""
    ranker = fitted("wd-mf")
    far = [(there.user_ids[0], 2000), (there.user_ids[1], 2000)]
    pairs = [*newcomers.pairs(), *far]
    ranker_at_rest = Ranker("wd-mf", device="cpu")
    for name, value in vars(ranker).items():
        if name.endswith("_"):
            setattr(ranker_at_rest, name, value)
    settings = METHODS["wd-mf"].settings(**(ranker.settings_.to_json() | {"learning_rate": 1e-12}))
    ranker_at_rest.settings_ = settings
    updated = ranker_at_rest.update(pairs, iterations=1)
    data, (users, items) = updated.interactions_, _vectors(updated)
    old_users, old_items = _vectors(ranker)
    torch.testing.assert_close(users[data.user_ids.indices(there.user_ids.ids)], old_users)
    torch.testing.assert_close(items[data.item_ids.indices(there.item_ids.ids)], old_items)
    folded = ranker.fold_in(newcomers).scorer_.user_vectors
    torch.testing.assert_close(users[data.user_ids.indices(newcomers.user_ids.ids)], folded)
    (new_item,) = data.item_ids.indices([2000])
    torch.testing.assert_close(items[new_item], old_users[:2].mean(dim=0))


def test_an_updated_ranker_is_saved_and_updated_again(
    fitted: Fitted, newcomers: Interactions, tmp_path: Path
) -> None:
    updated = fitted("wd-lgcn", filter_weight=0.5, iterations=10).update(newcomers)
    updated.save(tmp_path)
    loaded = load(tmp_path, "cpu")
    assert loaded.recommend(k=5).equals(updated.recommend(k=5))
    more = [(3000, int(updated.interactions_.item_ids.ids[0]))]
    once, twice = (ranker.update(more).recommend(3000) for ranker in (updated, loaded))
    np.testing.assert_allclose(
        once["score"], twice["score"], rtol=1e-3
    )  # rounding grows in training


def test_people_who_were_folded_in_cannot_be_trained_from(
    fitted: Fitted, newcomers: Interactions
) -> None:
    folded = fitted("wd-mf").fold_in(newcomers)
    with pytest.raises(InputError, match="cannot be updated"):
        folded.update([(1, 2)])


def test_a_fit_with_validation_is_updated_from_its_best_iterate(there: Interactions) -> None:
    ranker = Ranker("wd-mf", device="cpu", dim=8, iterations=40, validate_every=5, patience=2)
    ranker.fit(there, 0.2)
    users, items = _vectors(ranker)
    assert torch.equal(ranker.parameters_["user_table"], users)
    assert torch.equal(ranker.parameters_["item_table"], items)
