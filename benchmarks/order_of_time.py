"""Test from the files alone whether the rows of the public data sets are in order of time.

    python benchmarks/order_of_time.py --json benchmarks/records/order-of-time.json

Later items of a user are less similar to the earlier ones than items in between are. If rows are
in order of time, the last items of a row are therefore less similar to the others than random items
of the row, and the published test items are less similar still. The control uses the same rows in
shuffled order. All comparisons use four fifths of each row, so that the amount of data is the
same.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import sparse

from densirank import Interactions
from densirank.data.datasets import load_public
from densirank.data.splitting import split_last_fraction, split_random_fraction
from measuring import environment

DATASETS = ("gowalla", "yelp2018", "amazon-book-24k")
HELD_OUT = 0.2
NEAREST = 5
"""Similarities of a held-out item that are averaged, the highest ones."""
USERS = 3000
"""Users that are looked at, drawn once for each set."""


def similarity(kept: Interactions, held_out: Interactions, users: np.ndarray) -> float:
    """The mean similarity of held-out items to the user's other items.

    That of an item is the mean of its highest co-occurrence cosines n_ij / √(n_i n_j) with them.
    """
    columns = sparse.csc_array(kept.matrix())
    lengths = np.sqrt(np.maximum(kept.item_counts, 1))
    found = []
    for user in users:
        own, held = kept.items_of(user), held_out.items_of(user)
        held = held[kept.item_counts[held] > 0]  # of others nothing is known
        if len(own) == 0 or len(held) == 0:
            continue
        shared = (columns[:, held].T @ columns[:, own]).toarray()
        cosines = shared / np.outer(lengths[held], lengths[own])
        highest = -np.sort(-cosines, axis=1)[:, :NEAREST]
        found.extend(highest.mean(axis=1))
    return float(np.mean(found))


def shuffled(data: Interactions, seed: int) -> Interactions:
    """The same pairs, each row in a random order that counts as one of time."""
    order = np.random.default_rng(seed).permutation(len(data))
    users, items = data.users[order], data.items[order]
    return Interactions.from_codes(users, items, data.user_ids, data.item_ids, ordered=True)


def in_terms_of(data: Interactions, train: Interactions) -> Interactions:
    """Test pairs of known users and items, by the numbers that training has for them."""
    users = train.user_ids.indices(data.user_ids.ids)[data.users]
    items = train.item_ids.indices(data.item_ids.ids)[data.items]
    known = (users >= 0) & (items >= 0)
    ids = train.user_ids, train.item_ids
    return Interactions.from_codes(users[known], items[known], *ids)


def main() -> None:
    """Measure every set, print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    table = Table("held out", *given.datasets)
    found: dict[str, dict[str, float]] = {}
    for name in given.datasets:
        train, test = (load_public(name, part, given.data_dir) for part in ("train", "test"))
        some = np.random.default_rng(0).permutation(train.n_users)[:USERS]
        kept, drawn = split_random_fraction(train, HELD_OUT, seed=0)
        found[name] = {
            "a random fifth of each row": similarity(kept, drawn, some),
            "the last fifth of each row": similarity(*split_last_fraction(train, HELD_OUT), some),
            "the last fifth of shuffled rows": similarity(
                *split_last_fraction(shuffled(train, seed=0), HELD_OUT), some
            ),
            "the published test items": similarity(kept, in_terms_of(test, train), some),
        }
    for what in found[given.datasets[0]]:
        table.add_row(what, *(f"{found[name][what]:.3f}" for name in given.datasets))
    Console(markup=False).print(table)
    if given.json is not None:
        record = {"command": shlex.join(sys.argv), **environment("cpu"), "similarity": found}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
