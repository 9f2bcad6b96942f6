"""The log that the scale benchmark is measured on is as large as it says, and skewed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import densirank
import powerlaw
from powerlaw import Size


def test_every_pair_is_there_once_however_it_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(powerlaw, "PART", 1000)
    size = Size(users=200, items=300, interactions=5000)
    data = powerlaw.interactions(size)
    assert (data.n_users, data.n_items, len(data)) == (200, 300, 5000)
    assert np.sort(data.user_counts).tolist() == np.sort(size.counts()).tolist()
    assert data.item_counts.max() > 5 * np.median(data.item_counts)

    powerlaw.write(tmp_path / "log.parquet", size)
    assert densirank.read(tmp_path / "log.parquet").fingerprint == data.fingerprint


def test_a_user_who_would_have_most_items_is_a_problem() -> None:
    assert Size(users=200, items=300, interactions=5000).problem() is None
    assert Size(users=10, items=10, interactions=90).problem() is not None
