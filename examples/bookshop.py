"""An invented bookshop to try things on: its event log and the titles of its books.

``python examples/bookshop.py FOLDER`` writes ``events.csv`` (who viewed, put into the cart or
bought what, and when) and ``titles.csv``. Titles are combined from the words below and readers are
drawn at random with a fixed seed, so the files are the same each time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

SHELVES = {  # each title is a beginning and an end
    "mystery": (
        "The Lighthouse,The Ferryman's,The Glasshouse,The Harbour,The Clockmaker's,The Midwinter",
        "Alibi,Witness,Inheritance,Silence,Ledger",
    ),
    "space": (
        "Beyond,Signals from,Exiles of,The Last Door to,A Map of,Letters to",
        "Ceres,the Quiet Moon,the Ninth Orbit,Europa,the Amber Nebula",
    ),
    "cooking": (
        "Slow,Everyday,A Year of,The Art of,Simple,Forgotten",
        "Bread,Soups,Pickles,Sunday Lunches,Spices",
    ),
    "gardening": (
        "The Patient,A Small,The Walled,The Wild,A Winter,The Balcony",
        "Garden,Orchard,Meadow,Herb Bed,Greenhouse",
    ),
    "history": (
        "A Short History of,The Merchants of,The Rise of,The Fall of,Daily Life in,The Women of",
        "Carthage,the Hanse,Samarkand,Old Lisbon,Byzantium",
    ),
    "travel": (
        "Walking to,Across,Slow Trains to,A Summer in,By Bicycle to,The Road to",
        "Trieste,the Hebrides,Kashgar,Patagonia,the Black Sea",
    ),
    "fantasy": (
        "The Crown of,Daughter of,The Oath of,A Song for,The Thief of,Heir to",
        "Salt,Thorns,Ember Hall,the Drowned King,Winterfold",
    ),
    "mathematics": (
        "The Joy of,A Gentle Guide to,Proofs about,The Shape of,Adventures in,The Trouble with",
        "Probability,Infinity,Graphs,Prime Numbers,Algorithms",
    ),
}
NAMES = (
    "ada,amara,anton,beatriz,bruno,carla,chen,dalia,david,elif,emil,farah,felix,greta,hana,"
    "hugo,ines,ivo,jana,jonas,kaito,lena,liam,mara,mateo,mina,nadia,noah,olga,omar,petra,"
    "rafael,rosa,samir,sofia,tariq,uma,vera,yusuf,zoe"
)
OPENED = datetime(2025, 1, 1)
DAYS = 181  # to the end of June
MINUTES_PER_DAY = 24 * 60


@dataclass(frozen=True)
class Bookshop:
    """What readers did, in order of time, and what the books are called."""

    events: pl.DataFrame  # user, item, event, timestamp
    titles: pl.DataFrame  # item_id, title


def bookshop(readers: int = 1200, seed: int = 0) -> Bookshop:
    """Readers who each buy some ten to forty books, mostly from a shelf or two, and view more."""
    random = np.random.default_rng(seed)
    names = NAMES.split(",")
    books = [
        (f"{shelf}-{number:02}", f"{beginning} {end}")
        for shelf, (beginnings, ends) in SHELVES.items()
        for number, (beginning, end) in enumerate(product(beginnings.split(","), ends.split(",")))
    ]
    shelf_of_book = np.repeat(np.arange(len(SHELVES)), len(books) // len(SHELVES))
    log_popularity = -0.7 * np.log(1.0 + random.permutation(len(books)))
    rows = []
    for reader in range(readers):
        taste = random.dirichlet(np.full(len(SHELVES), 0.25))
        log_wish = np.log(taste + 0.003)[shelf_of_book] + log_popularity
        wished = np.argsort(-log_wish - random.gumbel(size=len(books)))  # a draw without return
        n_bought = int(random.integers(10, 41))
        name = f"{names[reader % len(names)]}.{reader // len(names) + 1:02}"
        rows += [
            (name, books[book][0], event, OPENED + timedelta(minutes=int(minute)))
            for book, event, minute in _visits(wished, n_bought, random)
        ]
    return Bookshop(
        pl.DataFrame(rows, schema=["user", "item", "event", "timestamp"], orient="row").sort(
            "timestamp", maintain_order=True
        ),
        pl.DataFrame(books, schema=["item_id", "title"], orient="row"),
    )


def _visits(
    wished: np.ndarray, n_bought: int, random: np.random.Generator
) -> Iterator[tuple[int, str, int]]:
    """Book, event and minute of what a reader buys, and of some books that she only views."""
    n_viewed = n_bought + random.integers(n_bought // 2 + 1)
    joined, last = random.integers(DAYS - 10) * MINUTES_PER_DAY, DAYS * MINUTES_PER_DAY - 60
    bought_at = np.sort(random.integers(joined, last, size=n_bought))
    viewed_at = random.integers(joined, last, size=n_viewed - n_bought)
    starts = np.concatenate([bought_at, viewed_at])
    for place, (book, start) in enumerate(zip(wished[:n_viewed], starts, strict=True)):
        bought = place < n_bought
        yield book, "view", start
        if random.random() < (0.7 if bought else 0.2):
            yield book, "cart", start + random.integers(1, 20)
        if bought:
            yield book, "purchase", start + random.integers(20, 60)


def main(folder: Path) -> None:
    """Write the shop as two files."""
    shop = bookshop()
    folder.mkdir(parents=True, exist_ok=True)
    shop.events.write_csv(folder / "events.csv", datetime_format="%Y-%m-%dT%H:%M")
    shop.titles.write_csv(folder / "titles.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
