"""Why an item: what its score loses without each past item."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from densirank import Interactions, Ranker
from densirank.errors import InputError
from densirank.ranking import explain as explaining

Fitted = Callable[..., Ranker]


@pytest.mark.parametrize("method", ["wd-lgcn", "wd-mf", "itemknn"])
def test_contributions_are_scores_with_and_without_a_past_item(
    method: str, fitted: Fitted, there: Interactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explaining, "MAX_ENTRIES", 30)  # a few histories at a time
    settings = {"filter_weight": 0.5} if method == "wd-lgcn" else {}
    ranker = fitted(method, **settings)
    user = there.user_ids[0]
    history = [there.item_ids[i] for i in there.items_of(0)]
    item = ranker.recommend(user, k=1)["item_id"][0]

    def score(items: list[int | str]) -> float:
        listed = ranker.fold_in([(0, i) for i in items]).recommend(0, k=100, filter_seen=False)
        return float(dict(listed.select("item_id", "score").iter_rows())[item])

    whole = score(history)
    expected = {i: whole - score([j for j in history if j != i]) for i in history}
    explained = ranker.explain(user, item, k=100)
    found = dict(explained.iter_rows())
    assert found.keys() == expected.keys()
    np.testing.assert_allclose(
        [found[i] for i in history], [expected[i] for i in history], rtol=1e-3, atol=1e-4
    )
    assert explained["contribution"].is_sorted(descending=True)
    assert ranker.explain(user, item, k=2).equals(explained.head(2))


def test_items_of_the_same_kind_explain_each_other() -> None:
    pairs = [(u, i) for u in range(20) for i in range(20) if (u + i) % 2 == 0]
    ranker = Ranker("wd-mf", device="cpu", dim=8, iterations=40).fit(pairs)
    mixed = ranker.fold_in([(0, 2), (0, 4), (0, 5)])  # two even items and an odd one
    past = dict(mixed.explain(0, 8, k=3).iter_rows())
    assert past[2] > past[5]
    assert past[4] > past[5]


def test_the_only_item_is_the_whole_explanation(fitted: Fitted, there: Interactions) -> None:
    folded = fitted("wd-lgcn").fold_in([("x", int(there.item_ids.ids[3]))])
    best = folded.recommend("x", k=1)
    explained = folded.explain("x", best["item_id"][0])
    assert explained["item_id"].to_list() == [there.item_ids[3]]
    np.testing.assert_allclose(explained["contribution"], best["score"], rtol=1e-5)


def test_an_item_does_not_explain_itself(fitted: Fitted, there: Interactions) -> None:
    folded = fitted("wd-mf").fold_in([(0, int(i)) for i in there.item_ids.ids[:3]])
    assert there.item_ids[0] not in folded.explain(0, int(there.item_ids.ids[0]))["item_id"]
    alone = fitted("wd-mf").fold_in([(0, int(there.item_ids.ids[0]))])
    with pytest.raises(InputError, match="has no other item"):
        alone.explain(0, int(there.item_ids.ids[0]))
