"""What people pass as ids, lengths, seeds and devices: a result, or one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from densirank import DensirankWarning, InputError, Ranker

LOG = [(user, f"i{(user * j) % 7}") for user in range(6) for j in range(1, 4)]
COLUMNS = ["user_id", "item_id", "score", "probability", "rank"]


@pytest.fixture(scope="module")
def ranker() -> Ranker:
    return Ranker("wd-mf", dim=2, iterations=3, device="cpu").fit(LOG)


@pytest.mark.parametrize(
    "several",
    [
        list,
        tuple,
        set,
        frozenset,
        iter,
        dict.fromkeys,
        lambda ids: dict.fromkeys(ids).keys(),
        lambda ids: (i for i in ids),
        np.array,
        lambda ids: np.array(ids, dtype=object),
        lambda ids: list(np.array(ids)),
        pl.Series,
        pd.Series,
        pd.Index,
        pd.array,
        lambda ids: pd.Series(ids, dtype="category"),
    ],
)
def test_several_ids_come_in_any_container(ranker: Ranker, several: Callable[[Any], Any]) -> None:
    expected = ranker.recommend([1, 2], 3, items=["i2", "i3", "i5"], filter_seen=False)
    found = ranker.recommend(
        several([1, 2]), 3, items=several(["i2", "i3", "i5"]), filter_seen=False
    )
    assert found.sort("user_id", "rank").equals(expected)
    listed = ranker.recommend(several([1, 2]), 3, unknown="popular", exclude=several(["i2"]))
    assert set(listed["user_id"]) == {1, 2}
    assert "i2" not in listed["item_id"].to_list()
    metrics = Ranker("popularity").fit(LOG).scores(several([1, 2]), several(["i2", "i3"]))
    assert metrics.shape == (2,)


@pytest.mark.parametrize("one", [1, np.int64(1), np.int32(1), np.uint8(1), np.array(1), "1"])
def test_one_user_comes_as_any_scalar(ranker: Ranker, one: Any) -> None:
    assert ranker.recommend(one, 3).equals(ranker.recommend([1], 3))
    assert ranker.recommend(one, 3, unknown="popular").drop("kind").equals(ranker.recommend([1], 3))
    assert ranker.similar_users(one, 2).height == 2


@pytest.mark.parametrize("one", ["i2", np.str_("i2"), np.array("i2"), pl.Series(["i2"])[0]])
def test_one_item_comes_as_any_scalar(ranker: Ranker, one: Any) -> None:
    assert ranker.similar_items(one, 3).equals(ranker.similar_items("i2", 3))
    assert ranker.recommend(1, 3, items=one, filter_seen=False)["item_id"].to_list() == ["i2"]


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (1.0, "integers or strings, not float64"),
        (True, "not bool"),
        ([1, True], "not bool"),
        ([1, None], "an id is missing"),
        (float("nan"), "an id is missing"),
        (pl.Series([1, None]), "an id is missing"),
        (pd.Series(["a", None]), "an id is missing"),
        (pd.array([1, None], dtype="Int64"), "an id is missing"),
        ([1, "a"], "not both"),
        ({1, "a"}, "not both"),
        ([[1], [1, 2]], "flat list"),
        ([[1, 2]], "flat list, not one of 2 dimensions"),
        (b"1", "not bytes"),
        (2**70, "exceeds 64-bit"),
        ([1, 2**70], "exceeds 64-bit"),
        ("\ud800", r"the id '\\ud800' is not valid Unicode"),
        (object(), "not object"),
        (pl.DataFrame({"user_id": [1]}), "flat list"),
    ],
)
def test_what_is_no_id_gets_a_sentence(ranker: Ranker, ids: Any, sentence: str) -> None:
    for ask in (
        lambda: ranker.recommend(ids),
        lambda: ranker.recommend(ids, unknown="popular"),
        lambda: ranker.recommend(1, items=ids),
        lambda: ranker.scores(1, ids),
    ):
        with pytest.raises(InputError, match=sentence):
            ask()


def test_half_a_character_is_no_id_of_a_log() -> None:
    with pytest.raises(InputError, match=r"the id '\\udc00' is not valid Unicode"):
        Ranker("popularity").fit([("ann", "tea"), ("bob", "\udc00")])


def test_nobody_gets_an_empty_frame(ranker: Ranker) -> None:
    empty: list[Any] = [[], (), np.array([]), pl.Series([]), set()]
    for nobody in empty:
        assert ranker.recommend(nobody).schema == ranker.recommend([1]).schema
        assert ranker.recommend(nobody, unknown="skip").columns == COLUMNS
        assert ranker.recommend(nobody, unknown="popular").columns == [*COLUMNS, "kind"]
        assert ranker.recommend(nobody).height == 0
    assert ranker.entropy([]).height == 0
    assert ranker.density([]).log_probabilities.shape == (0, 7)


def test_no_items_leave_nothing_to_list(ranker: Ranker) -> None:
    assert ranker.recommend(1, items=[]).height == 0
    density = ranker.density(1, items=[])
    assert density.log_probabilities.shape == (1, 0)
    assert (density.entropy.tolist(), density.effective_items.tolist()) == ([0], [0])


@pytest.mark.parametrize("k", [2.5, True, "3", None, 0, -1, 10**30, np.array([1, 2]), np.True_])
def test_a_length_is_a_whole_number(ranker: Ranker, k: Any) -> None:
    for ask in (
        lambda: ranker.recommend(1, k),
        lambda: ranker.sample(1, k),
        lambda: ranker.similar_items("i2", k),
        lambda: ranker.explain(1, "i5", k),
        lambda: ranker.evaluation([(1, "i5")], k),
        lambda: ranker.evaluate([(1, "i5")], [5, k]),
    ):
        with pytest.raises(InputError, match="k must be a whole number"):
            ask()


@pytest.mark.parametrize("seed", [1.5, True, "1", None, -1, 2**63])
def test_a_seed_is_a_whole_number(ranker: Ranker, seed: Any) -> None:
    with pytest.raises(InputError, match="seed must be a whole number"):
        Ranker("wd-mf", seed=seed)
    with pytest.raises(InputError, match="seed must be a whole number"):
        ranker.sample(1, seed=seed)
    assert Ranker("wd-mf", seed=np.int64(3)).seed == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("temperature", ["1", None, True, 0, float("nan"), [1.0]])
def test_a_temperature_is_a_number(ranker: Ranker, temperature: Any) -> None:
    with pytest.raises(InputError, match=r"temperature must be between 0\.000001 and 1000000, not"):
        ranker.sample(1, temperature=temperature)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"device": "gpu"}, "there is no device 'gpu'; choose auto, cpu or cuda"),
        ({"device": None}, "there is no device None"),
        ({"precision": "double"}, "there is no precision 'double'"),
        ({"method": 3}, "there is no method 3"),
        ({"method": ["wd-mf"]}, "did you mean wd-mf"),
    ],
)
def test_the_constructor_refuses_at_once(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Ranker(**({"method": "wd-mf"} | given))
    if "method" not in given:
        with pytest.raises(InputError, match=sentence):
            Ranker("wd-mf").set_params(**given)


def test_a_switch_is_true_or_false(ranker: Ranker) -> None:
    no: Any = "no"
    for ask in (
        lambda: ranker.recommend(1, filter_seen=no),
        lambda: ranker.recommend(1, approximate=no),
        lambda: ranker.entropy(1, filter_seen=no),
        lambda: ranker.evaluate([(1, "i5")], filter_seen=no),
    ):
        with pytest.raises(InputError, match="must be True or False, not 'no'"):
            ask()


def test_metrics_at_several_lengths_are_those_at_each(ranker: Ranker) -> None:
    test = [(1, "i5"), (2, "i1"), (99, "i1")]
    at_5, at_2 = ranker.evaluate(test, 5), ranker.evaluate(test, 2)
    assert ranker.evaluate(test, [5, 2, 5]) == at_5 | at_2
    assert ranker.evaluate(test, np.array([5])) == at_5
    with pytest.raises(InputError, match="k must be one whole number or several"):
        ranker.evaluate(test, [])


def test_bought_again_counts_where_what_was_seen_is_listed(ranker: Ranker) -> None:
    again = LOG[:4]
    new = ranker.evaluate(again, 7)
    assert (new["recall@7"], new["seen_pairs"]) == (0, len(set(again)))
    repeated = ranker.evaluate(again, 7, filter_seen=False)
    assert repeated["recall@7"] == 1
    assert ranker.evaluation(again, 7, filter_seen=False).per_user["recall"].tolist() == [1, 1]


def test_unknown_items_are_ignored_and_counted(ranker: Ranker) -> None:
    known = ["i2", "i3"]
    for name in ("items", "exclude"):
        expected: dict[str, Any] = {name: known}
        given: dict[str, Any] = {name: [*known, "zz", "yy", "zz"]}
        sentence = f"2 items are unknown and ignored in {name}: zz, yy"
        for ask in (ranker.recommend, ranker.sample, ranker.entropy):
            with pytest.warns(DensirankWarning, match=sentence) as said:
                found = ask(1, filter_seen=False, **given)
            assert found.equals(ask(1, filter_seen=False, **expected))
            assert [warning.filename for warning in said] == [__file__]
        with pytest.warns(DensirankWarning, match=sentence):
            density = ranker.density(1, **given)
        assert density.item_ids.tolist() == ranker.density(1, **expected).item_ids.tolist()
    with pytest.warns(DensirankWarning, match="1 item is unknown and ignored in items: zz"):
        assert ranker.recommend(1, items=["zz"]).height == 0


def test_unknown_people_are_refused_skipped_or_get_what_is_popular(ranker: Ranker) -> None:
    asked = [99, 1, 98, 99]
    with pytest.raises(InputError, match=r"does not know the user 99, 98$"):
        ranker.recommend(asked)
    with pytest.raises(InputError, match=r"100, 101, .*, 109 and 2 more$"):
        ranker.recommend(range(100, 112))
    with pytest.warns(DensirankWarning, match="2 unknown users were skipped"):
        assert ranker.recommend(asked, 2, unknown="skip").equals(ranker.recommend([1], 2))
    with pytest.warns(DensirankWarning, match="1 unknown user was skipped"):
        assert ranker.recommend(99, unknown="skip").columns == COLUMNS
    frame = ranker.recommend(asked, 1, unknown="popular")
    assert frame["user_id"].to_list() == asked
    assert frame["kind"].to_list() == ["popular", "known", "popular", "popular"]
    assert set(ranker.recommend(unknown="popular")["kind"]) == {"known"}
