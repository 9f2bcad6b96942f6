from __future__ import annotations

import numpy as np
import pytest

from densirank.data import vocabulary
from densirank.data.vocabulary import Vocabulary, encode


def test_unknown_ids_have_no_index() -> None:
    assert Vocabulary([5, 3]).indices([3, 4, 5, 99]).tolist() == [0, -1, 1, -1]
    assert Vocabulary(["b", "a"]).indices(["a", "c"]).tolist() == [0, -1]
    assert Vocabulary([]).indices([1]).tolist() == [-1]
    assert Vocabulary([1]).indices([]).tolist() == []


def test_integers_meet_the_texts_that_spell_them() -> None:
    assert Vocabulary([7, 12]).indices(["12", "7", "07", "x", str(2**70)]).tolist() == [
        1, 0, -1, -1, -1,
    ]  # fmt: skip
    assert Vocabulary(["7", "x"]).indices([7, 8]).tolist() == [0, -1]


def test_vocabularies_compare_and_give_ids_back_as_they_came() -> None:
    assert Vocabulary([2, 1, 2]) == Vocabulary([1, 2])
    assert Vocabulary([1]) != Vocabulary(["1"])
    assert isinstance(Vocabulary([1])[0], int)
    assert Vocabulary(np.array(["b", "a"]))[1] == "b"


def test_a_long_column_is_encoded_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabulary, "_PART", 3)
    ids = np.random.default_rng(1).integers(-6, 7, 20)
    found, codes = encode(ids)
    assert found == Vocabulary(ids)
    assert found.ids[codes].tolist() == ids.tolist()
