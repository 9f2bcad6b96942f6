from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from densirank import METHODS, Interactions
from densirank.automatic.starting import gini, largest_dim, space_for, start_for

METHOD = METHODS["densirank"]


def _flat(n: int) -> Interactions:
    """Everybody has two items, every item two users."""
    users = np.repeat(np.arange(n), 2)
    return Interactions.from_pairs(users, (users + np.tile([0, 1], n)) % n)


def test_gini_is_that_of_its_definition() -> None:
    counts = np.random.default_rng(0).integers(0, 50, size=40)
    differences = np.abs(counts[:, None] - counts[None, :]).mean()
    assert gini(counts) == pytest.approx(differences / (2 * counts.mean()))


def test_recency_is_searched_where_an_order_is_known_and_nowhere_else(log: Interactions) -> None:
    unordered = replace(log, ordered=False, timestamps=None)
    start = start_for(unordered, METHOD)
    assert (start["recency"], start["filter_recency"], start["filter_span"]) == (0, 0, 0)
    assert "recency" not in space_for(unordered, start)
    assert start_for(log, METHOD)["recency"] > 0
    assert "recency" in space_for(log, start)


def test_dimensions_grow_with_the_data_and_never_beyond_what_was_planned() -> None:
    dims = [largest_dim(_flat(n)) for n in (3, 40, 400, 4000, 40_000)]
    assert dims == [8, 8, 64, 256, 256]
    planned = start_for(_flat(400), METHOD) | {"dim": 32}
    assert max(space_for(_flat(400), planned)["dim"].grid().values) == 32  # type: ignore[type-var]


def test_norms_are_bounded_with_the_logarithm_of_the_catalogue() -> None:
    bounds = [start_for(_flat(n), METHOD)["max_norm"] for n in (10, 1000, 40_000, 100_000)]
    assert bounds == sorted(bounds)
    assert bounds[2] == bounds[3] == METHOD.max_norm


def test_unequal_popularity_goes_into_the_base_density() -> None:
    users = np.arange(100)
    favourite = Interactions.from_pairs(
        np.tile(users, 3), np.concatenate([0 * users, 0 * users + 1, users + 2])
    )
    flat = start_for(_flat(100), METHOD)["base_exponent"]
    assert start_for(favourite, METHOD)["base_exponent"] > flat
