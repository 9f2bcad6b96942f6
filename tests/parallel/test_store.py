"""What a process asks the store is answered, or the wait for it ends."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch.distributed as dist

from densirank.parallel.store import RunStore

LIMIT = 0.2


class Silent:
    """A store that never answers."""

    def __getattr__(self, word: str) -> Any:
        return lambda *_: threading.Event().wait()


def _hash_store() -> RunStore:
    return RunStore(dist.HashStore(), limit=LIMIT)  # type: ignore[attr-defined]


def test_what_one_says_another_reads() -> None:
    store = _hash_store()
    assert not store.has("key")
    store.set("key", "täxt")
    assert store.has("key")
    assert store.get("key") == "täxt"
    assert store.get_all(["key", "key"]) == ["täxt", "täxt"]
    assert [store.add("count", 2), store.add("count", 0)] == [2, 2]
    store.wait("key", within=LIMIT)


def test_the_first_word_stays() -> None:
    store = _hash_store()
    assert store.first("failure", "mine", within=LIMIT) == "mine"
    assert store.first("failure", "yours", within=LIMIT) == "mine"


def test_a_key_that_is_never_set_is_waited_for_no_longer_than_the_limit() -> None:
    with pytest.raises(dist.DistError):
        _hash_store().wait("never", within=LIMIT)


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: store.set("key", "value"),
        lambda store: store.add("key", 1),
        lambda store: store.get("key"),
        lambda store: store.get_all(["key"]),
        lambda store: store.has("key"),
        lambda store: store.first("key", "value", within=LIMIT),
        lambda store: store.wait("key", within=LIMIT),
    ],
)
def test_no_word_to_a_store_that_never_answers_is_waited_for_longer(ask: Any) -> None:
    store = RunStore(Silent(), limit=LIMIT)
    assert not store.lost
    with pytest.raises(dist.DistError, match="did not answer for"):
        ask(store)
    assert store.lost
    started = time.monotonic()
    with pytest.raises(dist.DistError, match="did not answer before"):
        ask(store)
    assert time.monotonic() - started < LIMIT
