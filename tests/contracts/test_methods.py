"""What every method promises, whatever its model, risk and constraint."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from densirank import METHODS
from densirank.testing import METHOD_CHECKS, SIZE, Subject

NOT_PERSONAL = {"popularity"}  # the same scores for everybody cannot tell even users from odd ones
CLOSED_FORM = {"popularity", "itemknn", "ease"}  # nothing is left to chance
LEARNT = {"dim": 8, "iterations": 60, "learning_rate": 0.03}
"""The rate is low, since WD without norm clipping is unstable, as the paper says."""
OWN: dict[str, dict[str, Any]] = {
    # half of all pairs are observed here, and without l2 8 numbers fit 10 items exactly
    "enmf": {"unobserved_weight": 0.2, "l2": 0.1},
    "als": {"l2": 1.0},
}


@cache
def subject_of(method: str) -> Subject:
    settings = METHODS[method].own(LEARNT | OWN.get(method, {}))
    return Subject(method, settings, method not in NOT_PERSONAL, method not in CLOSED_FORM)


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: str(check.__name__))
@pytest.mark.parametrize("method", METHODS)
def test_every_method_keeps_the_contract(method: str, check: Callable[[Subject], None]) -> None:
    check(subject_of(method))


@pytest.mark.parametrize("method", sorted(NOT_PERSONAL))
def test_an_impersonal_method_ranks_by_popularity(method: str) -> None:
    unseen = subject_of(method).ranker.recommend(4, k=SIZE)["item_id"].to_list()
    assert unseen == [3, 7, 9, 1, 5, 6]  # the held-out items have one user fewer
