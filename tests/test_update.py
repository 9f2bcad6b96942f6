"""More data: a model goes on from where it was, and knows more people and items afterwards."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from densirank import METHODS, Interactions, Ranker, load, read
from densirank.cli.app import app
from densirank.data.synthetic import Planted
from densirank.errors import DensirankWarning, InputError
from densirank.storage import stored_metrics
from densirank.update import merged, update_settings

Fitted = Callable[..., Ranker]


def test_merging_keeps_all_pairs_the_new_ones_last() -> None:
    old = Interactions.from_pairs([1, 1, 2], [5, 6, 6], ordered=True)
    new = Interactions.from_pairs(["2", "0", "1"], ["5", "9", "5"], ordered=True)
    both = merged(old, new)
    assert both.ordered
    assert list(both.pairs()) == [(0, 9), (1, 6), (1, 5), (2, 6), (2, 5)]
    unordered = Interactions.from_pairs([1], [5])
    assert not merged(old, unordered).ordered  # the order among the new ones is not known
    assert not merged(unordered, new).ordered


def test_merging_adds_weights_up_and_counts_pairs_without_one_as_one() -> None:
    weighted = Interactions.from_pairs([1, 1], [5, 6], weights=[3, 4])
    plain = Interactions.from_pairs([1, 2], [5, 6])
    for old, new, expected in (
        (weighted, weighted, [6, 8]),
        (weighted, plain, [4, 4, 1]),
        (plain, weighted, [4, 4, 1]),
    ):
        both = merged(old, new)
        assert both.weights is not None
        found = dict(zip(both.pairs(), both.weights.tolist(), strict=True))
        assert list(dict(sorted(found.items())).values()) == expected
    assert merged(plain, plain).weights is None


def test_merging_goes_by_time_where_both_have_times() -> None:
    old = Interactions.from_pairs([1, 1], [5, 6], timestamps=[10, 30])
    new = Interactions.from_pairs([1, 1], [7, 5], timestamps=[20, 40])
    both = merged(old, new)
    assert list(both.pairs()) == [(1, 7), (1, 6), (1, 5)]
    assert both.timestamps is not None
    assert both.timestamps.tolist() == [20, 30, 40]
    assert both.ordered
    assert not merged(replace(old, ordered=False), new).ordered
    rows = Interactions.from_pairs([1], [4], ordered=True)
    mixed = merged(old, rows)  # times of a part say nothing of the rest: what is new is later
    assert (mixed.timestamps, mixed.ordered) == (None, True)
    assert list(mixed.pairs()) == [(1, 5), (1, 6), (1, 4)]


def test_a_model_that_uses_the_order_is_not_updated_without_one() -> None:
    log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2]
    ordered = Interactions.from_pairs(*zip(*log, strict=True), ordered=True)
    ranker = Ranker("wd-mf", device="cpu", dim=2, iterations=2, recency=1.0).fit(ordered)
    with pytest.raises(InputError, match="recency needs interactions in order of time"):
        ranker.update([(0, 0)])
    assert ranker.update(read([(0, 0)], ordered=True)).interactions_.ordered


@pytest.mark.filterwarnings("ignore:popularity counts every pair alike")
def test_weights_and_times_survive_a_save_and_an_update(tmp_path: Path) -> None:
    old = Interactions.from_pairs([1, 1, 2], [5, 6, 6], [10, 30, 5], [2, 1, 1])
    new = Interactions.from_pairs([1, 3], [5, 6], [20, 50], [4, 1])
    ranker = Ranker("popularity", device="cpu").fit(old)
    ranker.save(tmp_path)
    updated = load(tmp_path, "cpu").update(new)
    assert updated.interactions_.fingerprint == merged(old, new).fingerprint
    updated.save(tmp_path)
    data = load(tmp_path, "cpu").interactions_
    assert data.weights is not None
    assert data.timestamps is not None
    assert data.weights.tolist() == [6, 1, 1, 1]
    assert data.timestamps.tolist() == [20, 30, 5, 50]


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
    new = [(1000, item), (1000, 2000), (there.user_ids[0], 2000)]
    updated = ranker.update(read(new, ordered=True))
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


def test_an_update_says_that_the_calibration_is_gone(
    fitted: Fitted, world: Planted, there: Interactions
) -> None:
    calibrated = copy(fitted("wd-mf")).calibrate(world.test)
    with pytest.warns(DensirankWarning, match="calibration does not carry over"):
        updated = calibrated.update([(there.user_ids[0], 2000)], iterations=2)
    assert updated.calibration_ is None
    assert calibrated.calibration_ is not None


def test_the_command_says_that_stored_metrics_are_gone(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item\n0,1\n0,2\n1,1\n1,3\n2,2\n2,3\n")
    (tmp_path / "new.csv").write_text("user,item\n0,3\n3,1\n")
    log, new, model = (str(tmp_path / name) for name in ("log.csv", "new.csv", "model"))
    for words in (
        ["fit", log, "--out", model, "--method", "wd-mf", "--set", "iterations=3"],
        ["evaluate", model, new, "--keep"],
        ["update", model, new, "--out", str(tmp_path / "newer")],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    assert "metrics were measured before the update" in done.output
    assert stored_metrics(tmp_path / "newer") is None
