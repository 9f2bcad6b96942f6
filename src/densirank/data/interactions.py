"""Interactions: immutable, unique (user, item) pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from densirank.data.vocabulary import Vocabulary, as_ids, encode
from densirank.errors import InputError

IntArray = NDArray[np.integer[Any]]
FloatArray = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Reading:
    """How a source was read: which columns were used as what, and why an order is known."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Role → column."""
    unused: tuple[str, ...] = ()
    """Columns without a role."""
    order: str | None = None
    """Why the order of each user's items is known; None if it is not."""


@dataclass(frozen=True, eq=False)
class Interactions:
    """Unique (user, item) pairs in CSR form by user.

    ``items[indptr[u]:indptr[u + 1]]`` are the items of user ``u``, oldest first if ``ordered``.
    Create them with :func:`densirank.read` or :meth:`from_pairs`, which validate the data once.

    Parameters
    ----------
    indptr, items
        The pairs in CSR form: item indices by user index.
    user_ids, item_ids
        The original ids, at the indices of the users and the items.
    timestamps, weights
        Columns parallel to ``items``, or None.
    ordered
        Whether the items of each user are in order of time.
    reading
        How they were read, for messages; no part of the data.

    Examples
    --------
    >>> clicks = Interactions.from_pairs(["ann", "bob", "ann"], ["tea", "tea", "jam"])
    >>> clicks
    Interactions(2 users, 2 items, 3 pairs)
    >>> clicks.item_ids[0], clicks.items_of(0).tolist()
    ('jam', [1, 0])
    """

    indptr: NDArray[np.int64]
    items: NDArray[np.int32]
    user_ids: Vocabulary
    item_ids: Vocabulary
    timestamps: FloatArray | IntArray | None = None
    weights: NDArray[np.float32] | None = None
    ordered: bool = False
    reading: Reading | None = None

    def __post_init__(self) -> None:
        for array in (self.indptr, self.items, self.timestamps, self.weights):
            if array is not None:
                array.flags.writeable = False

    def __repr__(self) -> str:
        return f"Interactions({self.n_users:,} users, {self.n_items:,} items, {len(self):,} pairs)"

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def from_pairs(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        timestamps: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        ordered: bool = False,
    ) -> Interactions:
        """Interactions from parallel columns of original ids.

        A repeated pair counts once: its latest occurrence is kept and its weights are added up. A
        pair of weight zero is no interaction: it is left out, though its ids stay known. A negative
        weight is an error.

        Parameters
        ----------
        users, items
            The ids of the pairs, integers or strings.
        timestamps
            Times by which the items of each user are sorted; ties keep the given order.
        weights
            Weights of at least 0, such as play counts.
        ordered
            Whether the rows are already in order of time.

        Raises
        ------
        InputError
            Columns of different lengths, missing or invalid values, or no pairs.
        """
        user_ids, user_codes = encode(as_ids(users))
        item_ids, item_codes = encode(as_ids(items))
        return cls.from_codes(
            user_codes, item_codes, user_ids, item_ids, timestamps, weights, ordered=ordered
        )

    @classmethod
    def from_codes(
        cls,
        users: IntArray,
        items: IntArray,
        user_ids: Vocabulary,
        item_ids: Vocabulary,
        timestamps: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        *,
        ordered: bool = False,
    ) -> Interactions:
        """Interactions from indices into known vocabularies."""
        if len(users) == 0:
            raise InputError("there are no interactions")
        if len(users) != len(items):
            raise InputError(f"there are {len(users)} users but {len(items)} items in the pairs")
        time = checked_column(timestamps, "timestamps", len(users))
        weight = checked_column(weights, "weights", len(users))
        if weight is not None and weight.min() <= 0:
            refuse_negative(weight)
            some = weight > 0
            users, items, weight = users[some], items[some], weight[some]
            time = None if time is None else time[some]
            if len(users) == 0:
                raise InputError("there are no interactions: every weight is zero")

        if time is None:
            order = _stable_order(users, len(user_ids))
        else:
            by_time = np.argsort(time, kind="stable").astype(_place_type(len(users)), copy=False)
            order = by_time[_stable_order(users[by_time], len(user_ids))]
        users = users[order].astype(np.int32, copy=False)
        items = items[order].astype(np.int32, copy=False)

        # The users are sorted, so a stable sort by item groups repeated pairs, the latest last.
        by_pair = _stable_order(items, len(item_ids))
        last = np.ones(len(users), dtype=bool)
        last[:-1] = _changes(users[by_pair])
        last[:-1] |= _changes(items[by_pair])
        keep = np.zeros(len(users), dtype=bool)
        keep[by_pair[last]] = True
        summed = None
        if weight is not None:
            starts = np.concatenate(([0], np.flatnonzero(last)[:-1] + 1))
            totals = np.empty(len(users))
            totals[by_pair[last]] = np.add.reduceat(weight[order][by_pair].astype(float), starts)
            if totals[keep].max() > np.finfo(np.float32).max:
                raise InputError("weights are too large: a pair's sum does not fit 32-bit floats")
            summed = totals[keep].astype(np.float32)

        bounds = np.arange(len(user_ids) + 1, dtype=np.int32)
        return cls(
            indptr=np.searchsorted(users[keep], bounds),
            items=items[keep].astype(np.int32, copy=False),
            user_ids=user_ids,
            item_ids=item_ids,
            timestamps=None if time is None else time[order][keep],
            weights=summed,
            ordered=ordered or time is not None,
        )

    @property
    def partial(self) -> bool:
        """Whether these are the pairs of some users, and other processes have the rest."""
        return False

    @property
    def first_user(self) -> int:
        """The number of the first of these users among all, where these are a part."""
        return 0

    @property
    def pairs_before(self) -> int:
        """Number of pairs of other processes before these, if these are a part."""
        return 0

    @property
    def totals(self) -> tuple[int, int, int]:
        """(users, items, pairs) over all processes."""
        return self.n_users, self.n_items, len(self)

    def whole(self) -> Interactions:
        """The pairs of all processes."""
        return self

    @property
    def n_users(self) -> int:
        return len(self.user_ids)

    @property
    def n_items(self) -> int:
        return len(self.item_ids)

    @cached_property
    def users(self) -> NDArray[np.int32]:
        """The user index of every pair, parallel to ``items``."""
        return np.repeat(np.arange(self.n_users, dtype=np.int32), self.user_counts)

    @cached_property
    def user_counts(self) -> NDArray[np.int64]:
        """The number of items of each user."""
        return np.diff(self.indptr)

    @cached_property
    def item_counts(self) -> NDArray[np.int64]:
        """The number of users of each item: its popularity."""
        return np.bincount(self.items, minlength=self.n_items)

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The position of every pair in the row of its user: 0 for the first (oldest) item."""
        return np.arange(len(self)) - np.repeat(self.indptr[:-1], self.user_counts)

    def items_of(self, user: int) -> NDArray[np.int32]:
        """The item indices of one user, in order."""
        return self.items[self.indptr[user] : self.indptr[user + 1]]

    def matrix(self) -> sparse.csr_array:
        """The pairs as a users × items SciPy CSR array of ones (item order in a row is kept).

        Its arrays are copies, since SciPy may sort indices in place.
        """
        ones = np.ones(len(self), dtype=np.float32)
        return sparse.csr_array(
            (ones, self.items, self.indptr), shape=(self.n_users, self.n_items), copy=True
        )

    def by_item(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """CSR by item: ``users[indptr[i]:indptr[i + 1]]`` are the users of item ``i``."""
        ones = np.ones(len(self), dtype=np.int8)
        indptr = self.indptr.astype(_place_type(len(self)))
        shape = (self.n_users, self.n_items)
        by_item = sparse.csr_array((ones, self.items, indptr), shape=shape).tocsc()
        return by_item.indptr.astype(np.int64), by_item.indices.astype(np.int32, copy=False)

    def select(self, keep: NDArray[np.bool_]) -> Interactions:
        """The pairs marked in ``keep``; the vocabularies and thus all indices stay."""
        counts = np.bincount(self.users[keep], minlength=self.n_users)
        return replace(
            self,
            indptr=np.concatenate(([0], np.cumsum(counts))),
            items=self.items[keep],
            timestamps=None if self.timestamps is None else self.timestamps[keep],
            weights=None if self.weights is None else self.weights[keep],
        )

    def compact(self) -> Interactions:
        """The same pairs without the ids that have no pairs."""
        users_kept, items_kept = self.user_counts > 0, self.item_counts > 0
        new_item = np.cumsum(items_kept, dtype=np.int32) - 1
        return replace(
            self,
            indptr=np.concatenate(([0], np.cumsum(self.user_counts[users_kept]))),
            items=new_item[self.items].astype(np.int32, copy=False),
            user_ids=Vocabulary.from_sorted(self.user_ids.ids[users_kept]),
            item_ids=Vocabulary.from_sorted(self.item_ids.ids[items_kept]),
        )

    def pairs(self) -> Iterable[tuple[int | str, int | str]]:
        """Every (user id, item id), in the original ids."""
        users, items = self.user_ids.ids[self.users], self.item_ids.ids[self.items]
        return zip(users.tolist(), items.tolist(), strict=True)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all that a fit can see: the pairs, their order if it is known, the weights.

        It is the ``pairs_fingerprint`` where there is neither an order nor weights.
        """
        if not self.ordered and self.weights is None:
            return self.pairs_fingerprint
        digest = hashlib.sha256(self.pairs_fingerprint.encode())
        order = self._sorted_pairs()
        if self.ordered:
            digest.update(b"positions")
            digest.update(self.positions[order].astype("<i8").tobytes())
        if self.weights is not None:
            digest.update(b"weights")
            digest.update(self.weights[order].astype("<f4").tobytes())
        return digest.hexdigest()

    def _sorted_pairs(self) -> IntArray:
        """The order that sorts the pairs by user and item."""
        in_item_order = _stable_order(self.items, self.n_items)
        return in_item_order[_stable_order(self.users[in_item_order], self.n_users)]

    @cached_property
    def pairs_fingerprint(self) -> str:
        """SHA-256 over the sorted pairs of original ids, independent of order and weights."""
        digest = hashlib.sha256()
        order = self._sorted_pairs()
        for vocabulary, codes in ((self.user_ids, self.users), (self.item_ids, self.items)):
            for start in range(0, len(order), 1_000_000):
                ids = vocabulary.ids[codes[order[start : start + 1_000_000]]]
                digest.update("\n".join(map(str, ids.tolist())).encode())
                digest.update(b"\n")
        return digest.hexdigest()


def checked_column(values: ArrayLike | None, name: str, length: int) -> NDArray[Any] | None:
    """A numeric column parallel to the pairs, validated: right length, all finite."""
    if values is None:
        return None
    array = np.asarray(values)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            row = int(np.argmax(np.isnat(array))) + 1
            raise InputError(f"{name} must not be missing; row {row} is")
        array = array.astype("datetime64[us]").astype(np.int64)
    if len(array) != length:
        raise InputError(f"there are {length} pairs but {len(array)} {name}")
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} must be numbers, not {array.dtype.name} values")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmin(np.isfinite(array))) + 1
        raise InputError(f"{name} must be finite; row {row} is not")
    return array


def refuse_negative(weights: NDArray[Any]) -> None:
    """Raise an error that names the first row with a negative weight."""
    if (weights < 0).any():
        row = int(np.argmax(weights < 0)) + 1
        raise InputError(f"weights must not be negative; row {row} is")


def _place_type(n: int) -> type[np.integer[Any]]:
    """32 bits if they suffice: positions take most of the memory of large data."""
    return np.int32 if n < 2**31 else np.int64


def _changes(values: IntArray) -> NDArray[np.bool_]:
    """Whether each value but the first differs from the previous one."""
    changes: NDArray[np.bool_] = values[1:] != values[:-1]
    return changes


def _stable_order(codes: IntArray, size: int) -> IntArray:
    """The stable order that sorts small integers, by a counting sort in linear time.

    SciPy converts CSR to CSC by a counting sort; on a matrix with one entry per row it sorts.
    """
    n = len(codes)
    kind = _place_type(n)
    one_a_row = sparse.csr_array(
        (np.ones(n, dtype=np.int8), codes.astype(kind, copy=False), np.arange(n + 1, dtype=kind)),
        shape=(n, max(size, 1)),
    )
    order: IntArray = one_a_row.tocsc().indices
    return order
