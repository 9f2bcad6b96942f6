"""Synthetic interactions drawn from a known density, to test whether a model recovers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from densirank.data.interactions import Interactions
from densirank.data.vocabulary import Vocabulary
from densirank.errors import InputError

Floats = NDArray[np.float64]
_BLOCK_CELLS = 4_000_000  # of a users × items block: 32 MB, whatever the size of the whole


@dataclass(frozen=True, eq=False)
class Planted:
    """Interactions and the density that they were drawn from.

    ``log p(i|u) = user_vectors[u] · item_vectors[i] − log-normaliser``; the last column of the
    item vectors is the log of the base density p0, and that of the user vectors is one.
    """

    train: Interactions
    test: Interactions
    user_vectors: Floats  # (users, rank + 1)
    item_vectors: Floats  # (items, rank + 1)

    def log_density(self, users: ArrayLike) -> Floats:
        """The exact log p(i|u) of every item for each of these users."""
        logits = self.user_vectors[np.asarray(users)] @ self.item_vectors.T  # (users, items)
        return _normalised(logits)


def planted(
    n_users: int,
    n_items: int,
    *,
    rank: int = 8,
    items_per_user: float = 20.0,
    test_items_per_user: int = 5,
    concentration: float = 2.0,
    popularity_exponent: float = 0.5,
    seed: int = 0,
) -> Planted:
    """Items drawn for each user without replacement from p(i|u) ∝ p0(i)·exp(f_u(i)).

    Given the past of a user, the next item has exactly the density p(i|u), renormalised over the
    items that are not in the past. The first items are train and the last ones test.

    ``concentration`` is the standard deviation of f_u(i) over the items: with 0, all users are
    alike. The base density falls with the popularity rank r of an item like r^−popularity_exponent.
    The number of train items per user varies around ``items_per_user``, with a minimum of one.

    >>> world = planted(50, 30, items_per_user=6, test_items_per_user=2, seed=1)
    >>> world.train.n_items, len(world.test)
    (30, 100)
    >>> round(float(np.exp(world.log_density([7])).sum()), 6)
    1.0
    """
    if min(n_users, rank, test_items_per_user) < 1 or items_per_user < 1 or concentration < 0:
        raise InputError(
            "users, rank and items per user must be at least 1, concentration at least 0"
        )
    most_train = n_items - test_items_per_user - 1
    if most_train < 1:
        raise InputError(
            f"{n_items} items are too few: each user needs one in train, {test_items_per_user} in "
            "test and one more"
        )
    random = np.random.default_rng(seed)
    log_p0 = -popularity_exponent * np.log(random.permutation(n_items) + 1.0)
    tastes = random.standard_normal((n_users, rank))
    tastes *= concentration / np.linalg.norm(tastes, axis=1, keepdims=True)
    user_vectors = np.column_stack((tastes, np.ones(n_users)))
    item_vectors = np.column_stack((random.standard_normal((n_items, rank)), log_p0))

    activity = random.lognormal(mean=-0.125, sigma=0.5, size=n_users)  # of mean one
    train_counts = 1 + random.poisson((items_per_user - 1) * activity)
    train_counts = np.minimum(train_counts, most_train)
    counts = train_counts + test_items_per_user
    items = np.concatenate(
        [
            _draw(user_vectors[block] @ item_vectors.T, counts[block], random)
            for block in _blocks(n_users, n_items)
        ]
    )
    drawn = Interactions.from_codes(
        np.repeat(np.arange(n_users), counts),
        items,
        Vocabulary.from_sorted(np.arange(n_users)),
        Vocabulary.from_sorted(np.arange(n_items)),
        ordered=True,
    )
    is_train = drawn.positions < train_counts[drawn.users]
    return Planted(drawn.select(is_train), drawn.select(~is_train), user_vectors, item_vectors)


def kl_divergence(
    world: Planted,
    estimate: Callable[[NDArray[np.int64]], ArrayLike],
    users: ArrayLike | None = None,
) -> float:
    """The mean over users of KL(planted density‖estimate).

    ``estimate`` returns the log density of all items for an array of users, up to a constant per
    user. Both densities are renormalised over the items that the user does not have in train, which
    are the items that a recommender ranks.

    >>> world = planted(20, 10, items_per_user=3, test_items_per_user=1)
    >>> kl_divergence(world, world.log_density)
    0.0
    """
    chosen = np.arange(world.train.n_users) if users is None else np.asarray(users, dtype=np.int64)
    total = 0.0
    for block in _blocks(len(chosen), world.train.n_items):
        truth, guess = world.log_density(chosen[block]), np.array(estimate(chosen[block]), float)
        if guess.shape != truth.shape:
            raise InputError(f"the estimate has shape {guess.shape}, expected {truth.shape}")
        for row, user in enumerate(chosen[block]):
            seen = world.train.items_of(user)
            truth[row, seen] = guess[row, seen] = -np.inf
        truth, guess = _normalised(truth), _normalised(guess)
        possible = np.isfinite(truth)
        total += float((np.exp(truth[possible]) * (truth[possible] - guess[possible])).sum())
    return total / len(chosen)


def _normalised(logits: Floats) -> Floats:
    """Log densities from logits, row by row."""
    log_density: Floats = logits - logsumexp(logits, axis=1, keepdims=True)
    return log_density


def _blocks(n_users: int, n_items: int) -> Iterator[slice]:
    size = max(1, _BLOCK_CELLS // n_items)
    return (slice(start, start + size) for start in range(0, n_users, size))


def _draw(
    logits: Floats, counts: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """The draws of each row without replacement, in the order of drawing, row after row.

    With Gumbel noise, the k highest of logit + noise are k successive draws from the softmax over
    the remaining items (Plackett–Luce).
    """
    keys = -(logits + random.gumbel(size=logits.shape))  # (users, items)
    most = int(counts.max())
    best = np.argpartition(keys, most - 1, axis=1)[:, :most]
    order = np.take_along_axis(keys, best, axis=1).argsort(axis=1)
    drawn: NDArray[np.int64] = np.take_along_axis(best, order, axis=1)
    return drawn[np.arange(most) < counts[:, None]]
