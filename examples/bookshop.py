"""An invented bookshop to try things on: readers with tastes, what they bought, and titles.

``python examples/bookshop.py FOLDER`` writes ``purchases.csv`` and ``titles.csv``. Every title is
put together from the words below and every reader is drawn at random, the same ones each time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Bookshop:
    """Who bought what, in the order it was bought, and what the books are called."""

    purchases: pl.DataFrame  # user_id, item_id, timestamp
    titles: pl.DataFrame  # item_id, title


def bookshop(readers: int = 1200, seed: int = 0) -> Bookshop:
    """Readers who each draw some ten to forty books, mostly from a shelf or two."""
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
        bought = np.argsort(-log_wish - random.gumbel(size=len(books)))[: random.integers(10, 41)]
        name = f"{names[reader % len(names)]}.{reader // len(names) + 1:02}"
        rows += [(name, books[book][0], time) for time, book in enumerate(bought)]
    return Bookshop(
        pl.DataFrame(rows, schema=["user_id", "item_id", "timestamp"], orient="row"),
        pl.DataFrame(books, schema=["item_id", "title"], orient="row"),
    )


def main(folder: Path) -> None:
    """Write the shop as two files."""
    shop = bookshop()
    folder.mkdir(parents=True, exist_ok=True)
    shop.purchases.write_csv(folder / "purchases.csv")
    shop.titles.write_csv(folder / "titles.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
