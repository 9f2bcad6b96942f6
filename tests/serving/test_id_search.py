from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from densirank.data.vocabulary import Vocabulary
from densirank.serving.browsing import ids_with_prefix

INTEGERS = st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(-200, 200)


@given(st.lists(INTEGERS, min_size=1, max_size=60), st.data())
def test_numbers_are_found_by_their_first_digits(ids: list[int], data: st.DataObject) -> None:
    vocabulary = Vocabulary(ids)
    whole = str(data.draw(st.sampled_from(ids)))
    query = whole[: data.draw(st.integers(1, len(whole)))]
    found = [vocabulary[index] for index in ids_with_prefix(vocabulary, query, 100)]
    expected = {i for i in ids if str(i).startswith(query)} if query != "-" else set()
    assert set(found) == expected
    assert len(found) == len(expected)


@given(st.lists(st.text("ab√", max_size=4), min_size=1, max_size=40), st.text("ab√", max_size=3))
def test_text_is_found_by_its_beginning(ids: list[str], query: str) -> None:
    vocabulary = Vocabulary(ids)
    found = [vocabulary[index] for index in ids_with_prefix(vocabulary, query, 100)]
    assert found == sorted(i for i in set(ids) if i.startswith(query))


@pytest.mark.parametrize("query", ["x", "1x", "٣", "-", "01", "1" * 30, " "])
def test_what_begins_no_number_finds_none(query: str) -> None:
    assert ids_with_prefix(Vocabulary([1, 2, 30, -4]), query, 10) == []


def test_no_more_than_the_limit_are_found() -> None:
    assert ids_with_prefix(Vocabulary(range(1000)), "1", 3) == [1, 10, 11]
    assert ids_with_prefix(Vocabulary(range(1000)), "", 3) == [0, 1, 2]
