"""Folding in: people by what they had, with every item staying where it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from densirank import METHODS, Interactions, Ranker, load
from densirank.data.synthetic import Planted
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError
from densirank.ranking.fold_in import Histories
from densirank.storage import _sha256

Fitted = Callable[..., Ranker]
Scores = Callable[[Ranker], np.ndarray[Any, Any]]

FOLDING = [name for name in METHODS if name not in ("ngcf", "popularity")]
OWN_SETTINGS: dict[str, dict[str, Any]] = {"als": {"l2": 1.0}, "enmf": {"unobserved_weight": 0.2}}
EXACT = ["popularity", "itemknn", "mult-vae"]  # a user is nothing but a history there


def _ndcg(ranker: Ranker, test: Interactions) -> float:
    return float(ranker.evaluate(test, k=10)["ndcg@10"])


def test_histories_keep_the_weights_and_times_of_what_they_keep() -> None:
    data = Interactions.from_pairs(
        ["b", "a", "a", "c"], [5, 6, 5, 9], timestamps=[1, 4, 3, 2], weights=[2, 3, 4, 5]
    )
    known = Histories.of(data, Vocabulary([5, 6])).known
    assert list(known.pairs()) == [("a", 5), ("a", 6), ("b", 5)]
    assert known.weights is not None
    assert known.timestamps is not None
    assert known.weights.tolist() == [4, 3, 2]
    assert known.timestamps.tolist() == [3, 4, 1]
    assert known.ordered
    without = Histories.of(Interactions.from_pairs([1], [5]), Vocabulary([5, 6])).known
    assert (without.weights, without.timestamps) == (None, None)


@pytest.mark.parametrize("method", FOLDING)
def test_newcomers_are_ranked_for_better_than_by_popularity(
    method: str, fitted: Fitted, newcomers: Interactions, world: Planted
) -> None:
    folded = fitted(method, **OWN_SETTINGS.get(method, {})).fold_in(newcomers)
    assert folded.interactions_.user_ids == newcomers.user_ids
    popular = fitted("popularity").fold_in(newcomers)
    if not method.startswith("ir"):  # the adversaries have learnt little after so few steps
        assert _ndcg(folded, world.test) > 1.1 * _ndcg(popular, world.test)


@pytest.mark.parametrize("method", ["wd-lgcn", "pde-lgcn", "wd-mf", "mle-mf", "als", "ease"])
def test_people_the_model_knows_are_ranked_for_nearly_as_well_when_folded_in(
    method: str, fitted: Fitted, there: Interactions, world: Planted
) -> None:
    ranker = fitted(method, **OWN_SETTINGS.get(method, {}))
    assert _ndcg(ranker.fold_in(there), world.test) > 0.9 * _ndcg(ranker, world.test)


@pytest.mark.parametrize("method", EXACT)
def test_a_history_that_is_all_there_is_of_a_user_gives_the_same_scores(
    method: str, fitted: Fitted, there: Interactions, scores_of: Scores
) -> None:
    ranker = fitted(method)
    np.testing.assert_allclose(
        scores_of(ranker.fold_in(there)), scores_of(ranker), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("layers", [0, 1, 3])
@pytest.mark.parametrize("method", ["wd-lgcn", "dregn-cf"])
def test_in_a_graph_vectors_are_what_a_node_that_only_listens_would_have(
    method: str, layers: int, fitted: Fitted, there: Interactions, newcomers: Interactions
) -> None:
    ranker = fitted(method, layers=layers, iterations=5)
    loops = method == "dregn-cf"
    had = there.matrix().toarray().astype(np.float64)
    theirs = np.zeros((newcomers.n_users, there.n_items))
    codes = there.item_ids.indices(newcomers.item_ids.ids)[newcomers.items]
    theirs[newcomers.users, codes] = 1
    n_users, n_items, n_new = len(had), had.shape[1], len(theirs)
    known = n_users + n_items
    adjacency = np.zeros((known + n_new, known + n_new))
    adjacency[:n_users, n_users:known] = had
    adjacency[n_users:known, :n_users] = had.T
    adjacency[:known, :known] += loops * np.eye(known)
    degrees = np.concatenate([adjacency[:known].sum(axis=1), theirs.sum(axis=1) + loops])
    adjacency[known:, n_users:known] = theirs
    normalised = adjacency / np.sqrt(np.outer(degrees, degrees))
    powers = [np.linalg.matrix_power(normalised, k) for k in range(layers + 1)]

    parameters = ranker.parameters_
    folded = ranker.fold_in(newcomers)
    said_and_own = folded.scorer_.user_vectors.double().numpy()
    layer_zero = np.concatenate(
        [parameters["user_table"], parameters["item_table"], np.zeros((n_new, 8))]
    )
    said = (np.mean(powers, axis=0) @ layer_zero)[known:]
    own = (said_and_own - said) * (layers + 1)
    norms = np.linalg.norm(own, axis=1)
    assert (norms > 0).all()
    if ranker.settings_.max_norm is not None:
        assert (norms <= ranker.settings_.max_norm + 1e-4).all()
    # The rest, x_u, is trained: at it, the user's own objective is lower than at 0.
    items = ranker.scorer_.item_vectors.double()
    for user in range(n_new):
        barred = torch.from_numpy(theirs[user] > 0)
        values = []
        for x in (own[user], np.zeros(8)):
            f = items @ torch.from_numpy(said[user] + x / (layers + 1))
            p = torch.softmax(f.masked_fill(barred, -torch.inf), 0)
            risk = (p * f).sum() - f[barred].mean()
            values.append(float(risk) + ranker.settings_.l2 / 2 * float(x @ x))
        assert values[0] < values[1]


def test_the_filter_of_known_people_is_the_same_when_they_are_folded_in(
    fitted: Fitted, there: Interactions
) -> None:
    ranker = fitted("wd-lgcn", filter_weight=0.5)
    made, made_again = ranker.scorer_.sparse_part, ranker.fold_in(there).scorer_.sparse_part
    assert made is not None
    assert made_again is not None
    everyone = torch.arange(there.n_users)
    own, folded = made.take(everyone), made_again.take(everyone)
    assert torch.equal(folded.rows.columns, own.rows.columns)
    ratio = folded.values / own.values  # both in units of their own vectors' spread
    for user in range(there.n_users):
        theirs = ratio[own.rows.row_of_entry == user]
        torch.testing.assert_close(theirs, theirs[:1].expand_as(theirs))


def test_unknown_items_are_ignored_and_counted_and_people_without_others_left_out(
    fitted: Fitted, there: Interactions
) -> None:
    first, second = there.item_ids[0], there.item_ids[1]
    pairs = [(7, first), (7, second), (7, 1000), (8, 1000), (8, 1001)]
    ranker = fitted("wd-lgcn")
    folded = ranker.fold_in(pairs)
    assert (folded.folded_in_.unknown_items, folded.folded_in_.left_out) == (2, 1)
    alone = ranker.fold_in([(7, first), (7, second)])
    assert folded.recommend(7).equals(alone.recommend(7))
    with pytest.raises(InputError, match="does not know the user 8"):
        folded.recommend(8)
    listed = folded.recommend([8, 7, 8], k=2, unknown="popular")
    assert listed["user_id"].to_list() == [8, 8, 7, 7, 8, 8]
    popular = ranker.recommend(10**6, k=2, unknown="popular")
    assert listed["item_id"].to_list()[:2] == popular["item_id"].to_list()
    with pytest.raises(InputError, match="none of the items"):
        ranker.fold_in([(8, 1000)])


def test_strangers_get_what_is_popular_among_what_is_allowed(
    fitted: Fitted, there: Interactions
) -> None:
    ranker = fitted("wd-mf")
    by_popularity = there.item_ids.ids[np.argsort(-there.item_counts, kind="stable")].tolist()
    barred, rest = by_popularity[0], by_popularity[1:]
    listed = ranker.recommend("-5", k=4, exclude=[barred], unknown="popular")
    assert listed["user_id"].to_list() == [-5] * 4
    assert listed["item_id"].to_list() == rest[:4]
    counts = np.sort(there.item_counts + 1.0)[::-1][1:]
    np.testing.assert_allclose(listed["probability"], counts[:4] / counts.sum(), rtol=1e-5)
    with pytest.raises(InputError, match="'nobody' is not"):
        ranker.recommend("nobody", unknown="popular")
    with pytest.raises(InputError, match="does not know the user -5"):
        ranker.recommend(-5)
    with pytest.raises(InputError, match="'error', 'popular' or 'skip'"):
        ranker.recommend(-5, unknown="whatever")  # type: ignore[arg-type]


def test_who_comes_with_whom_makes_no_difference(fitted: Fitted, newcomers: Interactions) -> None:
    ranker = fitted("wd-lgcn", filter_weight=0.5)
    together = ranker.fold_in(newcomers)
    for user in range(3):
        mine = ranker.fold_in(newcomers.select(newcomers.users == user).compact())
        alone, listed = (r.recommend(newcomers.user_ids[user], k=5) for r in (mine, together))
        assert alone["item_id"].to_list() == listed["item_id"].to_list()
        np.testing.assert_allclose(alone["score"], listed["score"], rtol=1e-3)


def test_a_method_that_has_no_way_says_so(fitted: Fitted, newcomers: Interactions) -> None:
    with pytest.raises(InputError, match="ngcf cannot fold users in"):
        fitted("ngcf").fold_in(newcomers)


@pytest.mark.parametrize("method", ["wd-lgcn", "wd-mf", "ease", "mult-vae"])
def test_a_folded_in_ranker_is_saved_and_folds_in_after_loading(
    method: str, fitted: Fitted, newcomers: Interactions, tmp_path: Path
) -> None:
    settings = {"filter_weight": 0.5} if method == "wd-lgcn" else {}
    folded = fitted(method, **settings).fold_in(newcomers)
    folded.save(tmp_path)
    loaded = load(tmp_path, "cpu")
    assert loaded.recommend(k=5).equals(folded.recommend(k=5))
    assert loaded.fold_in(newcomers).recommend(k=5).equals(folded.recommend(k=5))
    stranger = 10**6
    assert loaded.recommend(stranger, unknown="popular").equals(
        folded.recommend(stranger, unknown="popular")
    )


def _as_saved_before_folding_in(folder: Path) -> None:
    """Take everything out of a model's folder that older ones do not have."""
    manifest = json.loads((folder / "model.json").read_text())
    del manifest["parameters"]
    entry = manifest["files"]["vectors"]
    path = folder / entry["name"]
    added = ("parameter.", "items.", "filter.")
    kept = {k: v for k, v in load_file(path).items() if not k.startswith(added)}
    save_file(kept, path)
    entry |= {"sha256": _sha256(path), "bytes": path.stat().st_size}
    (folder / "model.json").write_text(json.dumps(manifest))


def test_an_older_folder_is_still_read_and_says_what_it_lacks(
    fitted: Fitted, newcomers: Interactions, tmp_path: Path
) -> None:
    for method in ("wd-lgcn", "wd-mf"):
        fitted(method).save(tmp_path / method)
        _as_saved_before_folding_in(tmp_path / method)
        old = load(tmp_path / method, "cpu")
        assert old.recommend(k=3).equals(fitted(method).recommend(k=3))
        with pytest.raises(InputError, match="cannot be updated"):
            old.update(newcomers)
    factorisation = load(tmp_path / "wd-mf", "cpu").fold_in(newcomers)
    assert factorisation.recommend(k=3).equals(fitted("wd-mf").fold_in(newcomers).recommend(k=3))
    with pytest.raises(InputError, match="saved without what its items pass on"):
        load(tmp_path / "wd-lgcn", "cpu").fold_in(newcomers)
