"""Splits: hold out each user's last items, random items, or all items after a time.

Every split returns ``(train, held_out)`` over the same vocabularies, so indices agree.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from densirank.data.interactions import Interactions
from densirank.errors import InputError
from densirank.settings import whole_number

Split = tuple[Interactions, Interactions]
Time = float | datetime | date | np.datetime64 | str
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def split_last_fraction(data: Interactions, fraction: float) -> Split:
    """Hold out the last fraction of every user's items.

    The share of each user is rounded, but at least one of two or more items is held out and at
    least one is kept; a user's only item stays in train.

    >>> data = Interactions.from_pairs([0] * 5 + [1], [3, 1, 4, 0, 2, 2], ordered=True)
    >>> train, held_out = split_last_fraction(data, 0.4)
    >>> train.items_of(0).tolist(), held_out.items_of(0).tolist(), held_out.items_of(1).tolist()
    ([3, 1, 4], [0, 2], [])
    """
    return _split_last(data, _share(data, fraction))


def split_last_n(data: Interactions, n: int) -> Split:
    """Hold out every user's last ``n`` items, leaving each user at least one.

    >>> data = Interactions.from_pairs([0, 0, 0], [7, 8, 9], ordered=True)
    >>> [part.item_ids[i] for part in split_last_n(data, 1) for i in part.items_of(0)]
    [7, 8, 9]
    """
    n = whole_number("n", n, 1)
    return _split_last(data, np.minimum(n, _spare(data)))


def split_random_fraction(data: Interactions, fraction: float, seed: int) -> Split:
    """Hold out as many items of every user as :func:`split_last_fraction`, but random ones.

    >>> data = Interactions.from_pairs([0, 0, 0, 0], [6, 7, 8, 9])
    >>> [len(part) for part in split_random_fraction(data, 0.25, seed=1)]
    [3, 1]
    """
    held_counts = _share(data, fraction)
    chance = np.random.PCG64(whole_number("seed", seed, 0))
    chance.advance(data.pairs_before)  # one number per pair
    lots = np.random.Generator(chance).random(len(data))
    drawn = np.empty(len(data), dtype=np.int64)  # the shuffled position of each pair in its row
    drawn[np.lexsort((lots, data.users))] = data.positions
    return _split(data, drawn < held_counts[data.users])


def split_at_time(data: Interactions, timestamp: Time) -> Split:
    """Hold out all interactions at ``timestamp`` or later.

    A number is in the unit of the data. A date, or its ISO 8601 text, is for data whose timestamps
    were read from dates: these are microseconds since 1970. Without a time zone it is in UTC.

    >>> data = Interactions.from_pairs([0, 0, 1], [5, 6, 5], timestamps=[10, 20, 30])
    >>> [len(part) for part in split_at_time(data, 20)]
    [1, 2]
    """
    if data.timestamps is None:
        raise InputError("a split at a time needs timestamps, which these interactions do not have")
    moment = _moment(timestamp)
    later = data.timestamps >= moment
    if later.all() or not later.any():
        first, last = data.timestamps.min(), data.timestamps.max()
        counted = "" if moment is timestamp else f" ({moment} microseconds since 1970)"
        raise InputError(
            f"no split at time {timestamp}{counted}: the data range from {first} to {last}"
        )
    return _split(data, later)


def _moment(timestamp: Any) -> float:
    """A number as it is, a date in microseconds since 1970."""
    moment = timestamp
    if isinstance(timestamp, str):
        try:
            moment = datetime.fromisoformat(timestamp)
        except ValueError:
            moment = None
    if isinstance(moment, np.datetime64) and not np.isnat(moment):
        return int(moment.astype("datetime64[us]").astype(np.int64))
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    if isinstance(moment, datetime) and moment == moment:  # pandas' NaT is no time
        zoned = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return (zoned - EPOCH) // timedelta(microseconds=1)
    is_number = isinstance(moment, int | float | np.integer | np.floating)
    if not is_number or isinstance(moment, bool) or moment != moment:
        raise InputError(
            "the time of a split must be a number, a date or the text of one such as "
            f"'2026-01-31T12:00', not {timestamp!r}"
        )
    return moment  # type: ignore[no-any-return]


def validation_split(
    data: Interactions,
    fraction: float = 0.2,
    how: Literal["last", "random"] | None = None,
    seed: int = 0,
) -> Split:
    """Hold out items for validation: each user's last items if the order is known.

    The best settings for random items can differ from those for the next items, so ``how`` defaults
    to ``"last"`` for ordered data.

    >>> data = Interactions.from_pairs([0, 0, 0], [7, 8, 9], ordered=True)
    >>> validation_split(data, 0.3)[1].item_ids[2]
    9
    """
    how = how or ("last" if data.ordered else "random")
    if how == "last":
        return split_last_fraction(data, fraction)
    if how == "random":
        return split_random_fraction(data, fraction, seed)
    raise InputError(f"valid_split must be 'last' or 'random', not {how!r}")


def k_core(data: Interactions, k: int) -> Interactions:
    """The largest part in which every user has at least ``k`` items and every item ``k`` users.

    >>> k_core(Interactions.from_pairs([0, 0, 1, 1, 2], [5, 6, 5, 6, 6]), 2)
    Interactions(2 users, 2 items, 4 pairs)
    """
    k = whole_number("k", k, 0)
    keep = np.ones(len(data), dtype=bool)
    while True:
        users = np.bincount(data.users[keep], minlength=data.n_users) >= k
        items = np.bincount(data.items[keep], minlength=data.n_items) >= k
        stays = keep & users[data.users] & items[data.items]
        if stays.sum() == keep.sum():
            break
        keep = stays
    if not keep.any():
        raise InputError(f"the {k}-core is empty: lower k")
    return data.select(keep).compact()


def _spare(data: Interactions) -> NDArray[np.int64]:
    """The number of items of each user that can be held out, leaving one."""
    return np.maximum(data.user_counts - 1, 0)


def _share(data: Interactions, fraction: float) -> NDArray[np.int64]:
    is_number = isinstance(fraction, float | np.floating)
    if not is_number or not 0 < fraction < 1:
        raise InputError(f"the fraction held out must be between 0 and 1, not {fraction!r}")
    rounded = np.floor(data.user_counts * fraction + 0.5).astype(np.int64)
    shares: NDArray[np.int64] = np.minimum(np.maximum(rounded, 1), _spare(data))
    return shares


def _split_last(data: Interactions, held_counts: NDArray[np.int64]) -> Split:
    if not data.ordered:
        raise InputError(
            "the last items cannot be held out: their order is not known (pass timestamps, or "
            "ordered=True if the rows are in order of time)"
        )
    kept_counts = data.user_counts - held_counts
    return _split(data, data.positions >= kept_counts[data.users])


def _split(data: Interactions, held: NDArray[np.bool_]) -> Split:
    if not held.any() and not data.partial:
        raise InputError("no items can be held out: no user has more than one")
    return data.select(~held), data.select(held)
