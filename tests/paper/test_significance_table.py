"""The paper's comparisons from planted metrics of users."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from densirank.errors import StorageError
from paper.per_user import write_per_user
from paper.records import Records
from paper.rows import TABLE_1, TABLE_2
from paper.significance_table import compared_pairs, sheet_of_pairs
from paper.statements import FAMILIES, PAIRS

N_USERS = 400
USERS = np.arange(N_USERS)


def plant(records: Records, gains: dict[str, float], users: np.ndarray = USERS) -> None:
    """Methods that differ by so much on average, and far less from user to user."""
    chance = np.random.default_rng(3)
    level = chance.uniform(0.2, 0.6, N_USERS)
    for method, gain in gains.items():
        path = records.per_user_path("gowalla", method)
        path.parent.mkdir(parents=True, exist_ok=True)
        ndcg = level + gain + chance.normal(0, 0.01, N_USERS)
        write_per_user(path, users, {"ndcg": ndcg, "recall": ndcg})


def test_what_pairs_of_users_tell_and_the_unpaired_test_does_not(tmp_path: Path) -> None:
    records = Records(tmp_path)
    plant(records, {"dregn-cf": 0.0, "pde-lgcn": 0.003, "wd-lgcn": 0.003})
    pairs, tested = compared_pairs(TABLE_1, records, "gowalla")
    assert set(tested) == {"dregn-cf", "pde-lgcn", "wd-lgcn"}
    found = {(pair.pair.first, pair.pair.second): pair.found for pair in pairs}
    better = found["wd-lgcn", "dregn-cf"]
    assert better is not None
    assert better.difference == pytest.approx(0.003, abs=0.001)
    assert better.p_paired < 0.01 < 0.5 < better.p_unpaired
    assert 0 < better.paired.low < better.paired.g < better.paired.high
    same = found["wd-lgcn", "pde-lgcn"]
    assert same is not None
    assert same.p_paired > 0.05


def test_the_sign_is_that_of_the_first_method(tmp_path: Path) -> None:
    records = Records(tmp_path)
    plant(records, {"wd-lgcn": 0.02, "pde-lgcn": 0.0})  # of table 1, PDE comes first in the table
    pairs, _ = compared_pairs(TABLE_1, records, "gowalla", ["wd-lgcn", "pde-lgcn"])
    ((_, difference, _, effect, *_),) = (pair.cells() for pair in pairs)
    assert float(difference) == pytest.approx(0.02, abs=0.002)
    assert effect.count("+") == 3
    pairs, _ = compared_pairs(TABLE_1, records, "gowalla")
    assert [pair.found is None for pair in pairs] == [True, True, False]


def test_what_was_not_run_is_said_beside_the_papers_words(tmp_path: Path) -> None:
    pairs, tested = compared_pairs(TABLE_2, Records(tmp_path), "yelp2018")
    assert pairs[0].cells() == (
        "PDE-LGCN − LightGCN-ANS-NC", "not run", "", "", "", "", ".900", ".0165"
    )  # fmt: skip
    assert pairs[0].to_json()["stated"] == {"p": ".900", "g": 0.0165}
    assert "Tested together: none" in sheet_of_pairs(TABLE_2, "yelp2018", pairs, tested).markdown()


def test_other_users_cannot_be_compared(tmp_path: Path) -> None:
    records = Records(tmp_path)
    plant(records, {"wd-lgcn": 0.0})
    plant(records, {"pde-lgcn": 0.0}, users=USERS + 1)
    with pytest.raises(StorageError, match="has other users"):
        compared_pairs(TABLE_1, records, "gowalla")


def test_every_comparison_is_within_its_table() -> None:
    for name, pairs in PAIRS.items():
        for pair in pairs:
            assert {pair.first, pair.second} <= set(FAMILIES[name].methods)
            assert set(pair.stated) == {"gowalla", "yelp2018", "amazon-book"}
