"""Public data sets by name: found on disk or downloaded, and verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from densirank.data.adjacency_text import read_text_form
from densirank.data.interactions import Interactions
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
    fingerprint: str | None = None  # of the Interactions
    md5: str | None = None  # of the file, if the fingerprint is not known


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
            810_128, "18dc3118657156ded95ad39fc614b0a75316ff685fdd3f59db297f113a16cc1a"
        ),
        test=PublicPart(
            217_242, "671b767f5c12593dcafc5e4be730483713cc34c412ff1dfd8202253d890116df"
        ),
    ),
    "yelp2018": PublicSet(
        users=31_668,
        items=38_048,
        train=PublicPart(
            1_237_259, "492793009e7a96cf6f0c4f1ada1eeff496b131d8e9238cf09097cf0c946dd064"
        ),
        test=PublicPart(
            324_147, "b2225c1767129cacca1baa629d64292491138ebbca7cbcc7bcf822dfebe2492e"
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
            1_187_711, "0d0ea093712e6f01708dd7d65799409cdf0fcc30f5aa5f08c727e81389d27576"
        ),
        test=PublicPart(
            292_552, "df689909eacead26edb5f425a4d9c54b25985c3efef9c30c08d4f540c8332446"
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
    return data


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
    if expected.fingerprint is not None:
        facts += [("fingerprint", expected.fingerprint, data.fingerprint)]
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
