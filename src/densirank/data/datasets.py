"""Public data sets by name: found on disk or downloaded, and verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from densirank.data.adjacency_text import read_text_form
from densirank.data.interactions import Interactions, Reading
from densirank.errors import InputError
from densirank.files import written_atomically

PUBLIC_ADDRESS = "https://raw.githubusercontent.com/kuandeng/LightGCN/master/Data"
DATA_VARIABLE = "DENSIRANK_DATA"
_TIMEOUT_SECONDS = 60

Part = Literal["train", "test"]


@dataclass(frozen=True)
class PublicPart:
    """One published file: its number of pairs and its checksums."""

    pairs: int
    pairs_fingerprint: str | None = None  # of the Interactions
    fingerprint: str | None = None  # of the Interactions in the order of the file
    md5: str | None = None  # of the file, if the fingerprints are not known


@dataclass(frozen=True)
class PublicSet:
    """A public data set with its published split; ``users`` and ``items`` all occur in train.

    >>> PUBLIC_SETS["gowalla"].users
    29858
    """

    users: int
    items: int
    train: PublicPart
    test: PublicPart
    fetched: bool = True  # False: a part of a public set, without an address


PUBLIC_SETS = {
    "gowalla": PublicSet(
        users=29_858,
        items=40_981,
        train=PublicPart(
            810_128,
            "18dc3118657156ded95ad39fc614b0a75316ff685fdd3f59db297f113a16cc1a",
            "73e8ce947b5181886cb746f358ece19f75bcc2d0b7cf8060dd13bff2db203868",
        ),
        test=PublicPart(
            217_242,
            "671b767f5c12593dcafc5e4be730483713cc34c412ff1dfd8202253d890116df",
            "b7139a86603bcd04df327dfb3eba54df3d04872921a8e6240cbc83611bee1124",
        ),
    ),
    "yelp2018": PublicSet(
        users=31_668,
        items=38_048,
        train=PublicPart(
            1_237_259,
            "492793009e7a96cf6f0c4f1ada1eeff496b131d8e9238cf09097cf0c946dd064",
            "b0cb34518bdcc3feb259302ca7f44ee5335a61b8e073e55966ea3a340f0a9fe1",
        ),
        test=PublicPart(
            324_147,
            "b2225c1767129cacca1baa629d64292491138ebbca7cbcc7bcf822dfebe2492e",
            "dde353729047c0bb838605548704259ff6718a0cedb5a7b4023bfa19118924aa",
        ),
    ),
    "amazon-book": PublicSet(
        users=52_643,
        items=91_599,
        train=PublicPart(2_380_730, md5="c916ecac04ca72300a016228258b41ed"),
        test=PublicPart(603_378),
    ),
    "amazon-book-24k": PublicSet(  # users of amazon-book with complete training rows
        users=24_172,
        items=90_061,
        train=PublicPart(
            1_187_711,
            "0d0ea093712e6f01708dd7d65799409cdf0fcc30f5aa5f08c727e81389d27576",
            "369482e5527783947908ca14efda556bd46943050436f5b5133477193bde0425",
        ),
        test=PublicPart(
            292_552,
            "df689909eacead26edb5f425a4d9c54b25985c3efef9c30c08d4f540c8332446",
            "3adfc2007c65ea4a7a93290cfc433e88422106eb951c7600969bb6bc139f83f9",
        ),
        fetched=False,
    ),
}


def load_public(
    name: str,
    part: Part = "train",
    data_dir: str | os.PathLike[str] | None = None,
    *,
    address: str = PUBLIC_ADDRESS,
) -> Interactions:
    """One part of a public data set, from disk or downloaded once.

    ``NAME/train.txt`` and ``NAME/test.txt`` are searched in ``data_dir``, in the folder named by
    the environment variable ``DENSIRANK_DATA`` and in the cache; if the set has an address, missing
    files are downloaded from it into the cache. The statistics of the data are verified. A test
    part has its own vocabulary of its users and items.
    """
    if name not in PUBLIC_SETS:
        raise InputError(f"there is no public set {name!r}; the sets are: {', '.join(PUBLIC_SETS)}")
    if part not in ("train", "test"):
        raise InputError(f"the parts of a public set are 'train' and 'test', not {part!r}")
    cache = _cache_folder()
    folders = [Path(place) for place in (data_dir, os.environ.get(DATA_VARIABLE), cache) if place]
    candidates = [folder / name / f"{part}.txt" for folder in folders]
    path = next((file for file in candidates if file.exists()), None)
    if path is None and not PUBLIC_SETS[name].fetched:
        raise InputError(
            f"{name} cannot be downloaded: put its files in {cache / name}, or name the folder "
            f"that holds {name}/{part}.txt in the environment variable {DATA_VARIABLE}"
        )
    if path is None:
        path = cache / name / f"{part}.txt"
        _fetch(f"{address}/{name}/{part}.txt", path)
    data = read_text_form(path, allow_empty_users=part == "test")
    _check(data, PUBLIC_SETS[name], part, path)
    return replace(data, ordered=True, reading=Reading(order=_order_of(name)))


def with_known_order(
    data: Interactions, said: bool | None, path: Path | None = None
) -> Interactions:
    """The same interactions, in order of time if one is known: the one place that decides it.

    An order is known where a person says so (``said``), where there are timestamps, by which the
    rows are sorted, and where the rows are those of a public set in its published order.
    """
    why = None
    if said is not False and data.timestamps is not None:
        why = "timestamps"
    elif said:
        why = "said"
    elif said is None and (name := _public_name(data, path)) is not None:
        why = _order_of(name)
    reading = replace(data.reading or Reading(), order=why)
    return replace(data, ordered=why is not None, reading=reading)


def _order_of(name: str) -> str:
    return f"public set {name}"


def _public_name(data: Interactions, path: Path | None) -> str | None:
    """The public set of which these are a part with its rows in the published order."""
    for name, known in PUBLIC_SETS.items():
        for part in (known.train, known.test):
            if len(data) != part.pairs:
                continue
            rows = replace(data, ordered=True, weights=None)
            by_rows = part.fingerprint is not None and rows.fingerprint == part.fingerprint
            if by_rows or (part.md5 is not None and path is not None and _md5(path) == part.md5):
                return name
    return None


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "densirank"


def _fetch(url: str, path: Path) -> None:
    """Download a file; it is renamed into place when it is complete."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            content = response.read()
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(path) as temporary:
            temporary.write_bytes(content)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection
        raise InputError(
            f"{url} cannot be downloaded ({error}); put the file at {path}, or name the folder "
            f"that holds {path.parent.name}/{path.name} in the environment variable {DATA_VARIABLE}"
        ) from error


def _check(data: Interactions, known: PublicSet, part: Part, path: Path) -> None:
    """Raise an error if a file is not the published one."""
    expected = known.train if part == "train" else known.test
    facts: list[tuple[str, int | str, int | str]] = [("pairs", expected.pairs, len(data))]
    if part == "train":
        facts += [("users", known.users, data.n_users), ("items", known.items, data.n_items)]
    if expected.pairs_fingerprint is not None:
        facts += [("fingerprint", expected.pairs_fingerprint, data.pairs_fingerprint)]
    if expected.fingerprint is not None:
        rows = replace(data, ordered=True)
        facts += [("fingerprint of the order", expected.fingerprint, rows.fingerprint)]
    if expected.md5 is not None:
        facts += [("md5", expected.md5, _md5(path))]
    for what, wanted, seen in facts:
        if wanted != seen:
            raise InputError(
                f"{path} is not the published file ({what}: expected {wanted}, found {seen})"
                + ("; delete it to download it again" if known.fetched else "")
            )


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
