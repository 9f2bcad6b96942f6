from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from densirank.data.interactions import Interactions

Contents = Callable[[Interactions], dict[str, Any]]


@pytest.fixture
def contents() -> Contents:
    """Everything an Interactions holds, as plain lists that compare and print well."""

    def plain(data: Interactions) -> dict[str, Any]:
        return {
            "rows": [data.items_of(user).tolist() for user in range(data.n_users)],
            "users": data.user_ids.ids.tolist(),
            "items": data.item_ids.ids.tolist(),
            "times": None if data.timestamps is None else data.timestamps.tolist(),
            "weights": None if data.weights is None else data.weights.tolist(),
            "ordered": data.ordered,
        }

    return plain
