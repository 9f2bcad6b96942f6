from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from densirank import Interactions, Ranker
from densirank.serving.app import ServeConfig, create_app

ODD = ["crème brûlée", "a/b/similar", "50% off?", "#1"]
"""Ids that an address can only hold encoded."""

Serve = Callable[..., AbstractContextManager[TestClient]]


def fitted(seed: int = 0) -> Ranker:
    """A small model with text ids for users and items."""
    items = ODD + [f"item{n}" for n in range(20)]
    users = [*ODD, *(f"user{n}" for n in range(16))]
    pairs = [
        (user, item)
        for u, user in enumerate(users)
        for i, item in enumerate(items)
        if (u + i) % 3 == 0 or (u * i) % 7 == 1
    ]
    data = Interactions.from_pairs(*zip(*pairs, strict=True))
    return Ranker("wd-mf", dim=4, iterations=30, device="cpu", seed=seed).fit(data)


@pytest.fixture(scope="session")
def ranker() -> Ranker:
    return fitted()


@pytest.fixture(scope="session")
def folder(ranker: Ranker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that no test changes."""
    folder = tmp_path_factory.mktemp("serving") / "model"
    ranker.save(folder)
    return folder


@pytest.fixture
def own_folder(ranker: Ranker, tmp_path: Path) -> Path:
    """A model folder to change."""
    ranker.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Starts a server in this process; it looks for new models only when it is told to."""

    @contextmanager
    def started(folder: Path, **options: Any) -> Iterator[TestClient]:
        config = replace(ServeConfig(folder, watch_seconds=0), **options)
        with TestClient(create_app(config), raise_server_exceptions=False) as client:
            yield client

    return started


@pytest.fixture(scope="session")
def client(folder: Path, serve: Serve) -> Iterator[TestClient]:
    with serve(folder) as client:
        yield client
