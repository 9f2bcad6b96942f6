from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pytest

from densirank.data import datasets as catalogue
from densirank.data.datasets import PUBLIC_SETS, PublicPart, PublicSet, load_public
from densirank.data.interactions import Interactions, Reading
from densirank.data.reading import read
from densirank.errors import InputError

TRAIN, TEST = "0 4 2\n1 2\n", "0 7\n1\n"
SMALL = Interactions.from_pairs([0, 0, 1], [4, 2, 2])


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def small_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A public set small enough to serve, and no way to the caches of this machine."""
    known = PublicSet(
        users=2,
        items=2,
        train=PublicPart(3, SMALL.fingerprint, md5=hashlib.md5(TRAIN.encode()).hexdigest()),
        test=PublicPart(1),
    )
    monkeypatch.setitem(PUBLIC_SETS, "small", known)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DENSIRANK_DATA", raising=False)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    put(tmp_path / "public")
    handler = partial(QuietHandler, directory=str(tmp_path / "public"))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def put(folder: Path, train: str = TRAIN) -> Path:
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "train.txt").write_text(train)
    (folder / "small" / "test.txt").write_text(TEST)
    return folder


def test_fetches_once_into_the_cache(tmp_path: Path, address: str) -> None:
    assert list(load_public("small", address=address).pairs()) == [(0, 4), (0, 2), (1, 2)]
    assert list(load_public("small", "test", address=address).pairs()) == [(0, 7)]
    cached = tmp_path / "cache" / "densirank" / "small"
    assert sorted(file.name for file in cached.iterdir()) == ["test.txt", "train.txt"]
    assert load_public("small", address="http://127.0.0.1:9/nowhere").ordered


def test_a_folder_or_the_environment_comes_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = "http://127.0.0.1:9/nowhere"
    folder = put(tmp_path / "mine")
    assert len(load_public("small", data_dir=folder, address=nowhere)) == 3
    monkeypatch.setenv("DENSIRANK_DATA", str(folder))
    assert len(load_public("small", address=nowhere)) == 3


def test_the_cache_is_in_the_home_folder_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert catalogue._cache_folder() == Path.home() / ".cache" / "densirank"


def test_a_copy_of_a_public_file_is_recognised_in_its_published_order_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = replace(SMALL, ordered=True)
    by_rows = PublicPart(3, SMALL.pairs_fingerprint, published.fingerprint)
    small = replace(PUBLIC_SETS["small"], train=by_rows)
    path = tmp_path / "elsewhere.txt"
    for known, name in ((PUBLIC_SETS["small"], "by its bytes"), (small, "by its rows")):
        monkeypatch.setitem(PUBLIC_SETS, "small", known)
        path.write_text(TRAIN)
        data = read(path)
        assert data.ordered, name
        assert data.reading == Reading(order="public set small")
        assert not read(path, ordered=False).ordered
        path.write_text("0 2 4\n1 2\n")  # the same pairs, not their order
        assert not read(path).ordered, name
    table = tmp_path / "table.csv"
    table.write_text("user,item\n1,2\n0,4\n0,2\n")
    assert read(table).ordered
    with pytest.raises(InputError, match=r"not the published file \(fingerprint of the order"):
        load_public("small", data_dir=put(tmp_path / "mine", "0 2 4\n1 2\n"))


@pytest.mark.parametrize("where", ["http://127.0.0.1:9/nowhere", "missing", "no address"])
def test_what_cannot_be_fetched_can_be_put_there(tmp_path: Path, address: str, where: str) -> None:
    url = f"{address}/elsewhere" if where == "missing" else where
    with pytest.raises(InputError, match="cannot be downloaded") as caught:
        load_public("small", address=url)
    said = str(caught.value)
    assert f"{url}/small/train.txt" in said
    assert str(tmp_path / "cache" / "densirank" / "small" / "train.txt") in said
    assert "DENSIRANK_DATA" in said


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ("0 4 2\n", "pairs: expected 3, found 2"),
        ("0 4\n1 2\n2 4\n", "users: expected 2, found 3"),
        ("0 4 2 9\n", "users: expected 2, found 1"),
        ("0 4\n1 2 4\n", "fingerprint: "),
        ("0 2 4\n1 2\n", "md5: "),
    ],
)
def test_other_files_are_not_taken_for_the_published_ones(
    tmp_path: Path, train: str, message: str
) -> None:
    folder = put(tmp_path / "mine", train)
    with pytest.raises(InputError, match=rf"train\.txt is not the published file \({message}"):
        load_public("small", data_dir=folder)


def test_a_set_without_an_address_is_never_fetched(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PUBLIC_SETS, "small", replace(PUBLIC_SETS["small"], fetched=False))
    with pytest.raises(InputError, match=r"cannot be downloaded.*small/train\.txt.*DENSIRANK_DATA"):
        load_public("small", address=address)
    assert len(load_public("small", data_dir=put(tmp_path / "mine"))) == 3


def test_unknown_names_and_parts() -> None:
    with pytest.raises(
        InputError, match="no public set 'movielens'; the sets are: gowalla, yelp2018"
    ):
        load_public("movielens")
    with pytest.raises(InputError, match="'train' and 'test', not 'valid'"):
        load_public("small", cast(Any, "valid"))


REAL_DATA = os.environ.get("DENSIRANK_DATA")


@pytest.mark.skipif(
    not (REAL_DATA and Path(REAL_DATA).is_dir()),
    reason="DENSIRANK_DATA names no folder with the public sets",
)
@pytest.mark.parametrize("name", ["gowalla", "yelp2018", "amazon-book-24k"])
def test_the_real_sets_are_as_published(name: str) -> None:
    train, test = (
        load_public(name, "train", REAL_DATA),
        load_public(name, "test", REAL_DATA),
    )
    known = PUBLIC_SETS[name]
    assert (train.n_users, train.n_items) == (known.users, known.items)
    assert (len(train), len(test)) == (known.train.pairs, known.test.pairs)
    for data, published in ((train, known.train), (test, known.test)):
        assert data.pairs_fingerprint == published.pairs_fingerprint
        assert data.fingerprint == published.fingerprint
    assert set(train.pairs()).isdisjoint(test.pairs())
    assert set(test.item_ids.ids) <= set(train.item_ids.ids)
    for part, data in (("train", train), ("test", test)):
        with Path(str(REAL_DATA), name, f"{part}.txt").open() as lines:
            for _, line in zip(range(1000), lines, strict=False):
                user, *items = map(int, line.split())
                row = data.items_of(int(data.user_ids.indices([user])[0]))
                assert data.item_ids.ids[row].tolist() == items
