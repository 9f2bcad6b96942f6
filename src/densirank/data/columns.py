"""The roles of the columns of a table, and their usual names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches

from densirank.errors import InputError

# Compared without case, spaces, "_" and "-", and without RecBole's ":token"; the first one wins.
USUAL_NAMES = {
    "user": (
        "userid", "user", "uid", "username", "customerid", "customer", "reviewerid", "visitorid",
        "memberid", "accountid", "personid",
    ),
    "item": (
        "itemid", "item", "iid", "movieid", "productid", "parentasin", "asin", "trackid", "songid",
        "artistid", "bookid", "isbn", "gameid", "articleid", "newsid", "videoid", "recipeid",
        "businessid", "gmapid", "venueid", "poiid", "locationid", "placeid", "contentid",
        "movie", "product", "track", "song", "artist", "book", "article",
    ),
    "timestamp": (
        "timestamp", "unixreviewtime", "unixtime", "datetime", "createdat", "time", "ts", "date",
        "checkintime", "eventtime",
    ),
    "weight": ("weight", "count", "plays", "playcount", "listencount", "quantity"),
    "rating": ("rating", "overall", "stars", "score"),
    "event": (),
}  # fmt: skip
REQUIRED = ("user", "item")


@dataclass(frozen=True)
class Columns:
    """A column name for each role.

    In a request, ``None`` means "the column with a usual name" and an empty string means "none". In
    the result of :meth:`find`, ``None`` means that the table has no such column.
    """

    user: str | None = None
    item: str | None = None
    timestamp: str | None = None
    weight: str | None = None
    rating: str | None = None
    event: str | None = None

    def named(self) -> list[str]:
        """The roles that have a name."""
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]

    def over(self, others: Columns) -> Columns:
        """These names, completed by others."""
        return replace(others, **{role: getattr(self, role) for role in self.named()})

    def find(self, names: Sequence[str], origin: str) -> Columns:
        """The column of each role in a table with these column names.

        >>> Columns(weight="").find(["movieId", "userId", "stars"], "ratings.csv").named()
        ['user', 'item', 'rating']
        """
        found = {role: _find(role, getattr(self, role), names, origin) for role in USUAL_NAMES}
        chosen = [name for name in found.values() if name is not None]
        for name in chosen:
            both_allowed = name == found["rating"] == found["weight"]  # ratings from X, by rating
            if chosen.count(name) > 1 + both_allowed:
                roles = " and ".join(role for role in found if found[role] == name)
                raise InputError(f"{origin}: the column {name!r} cannot be both {roles}")
        return Columns(**found)


NO_NAMES = Columns()


@dataclass(frozen=True)
class Meaning:
    """What a table means: the roles of its columns, and what their values say.

    Parameters
    ----------
    columns
        Columns that are named.
    timestamp_format
        The strptime form of dates in a timestamp column of text.
    min_rating
        Rows with a lower rating are left out.
    event_weights
        The weight of a row by its event; 0 leaves it out.
    """

    columns: Columns = NO_NAMES
    timestamp_format: str | None = None
    min_rating: float | None = None
    event_weights: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        named = self.columns
        if named.rating and self.min_rating is None:
            raise InputError(
                "rating_column (--rating-column) needs min_rating (--min-rating), the least rating "
                "of a row that counts; to weight rows by their rating, name it as weight_column "
                "(--weight-column)"
            )
        if self.min_rating is not None and not math.isfinite(self.min_rating):
            raise InputError(f"min_rating must be finite, not {self.min_rating}")
        if bool(named.event) != (self.event_weights is not None):
            raise InputError(
                "event_column (--event-column) and event_weights (--event-weights) are given "
                "together or not at all"
            )
        if self.event_weights is None:
            return
        if named.weight:
            raise InputError(
                "event_weights cannot be combined with weight_column: a row has one weight"
            )
        for event, weight in self.event_weights.items():
            if not 0 <= weight < math.inf:
                raise InputError(
                    f"event_weights: the weight of {event!r} is {weight}; weights must be finite "
                    "and not negative"
                )
        if not any(self.event_weights.values()):
            raise InputError("event_weights must name an event with a weight above 0")

    def find(self, names: Sequence[str], origin: str, defaults: Columns = NO_NAMES) -> Columns:
        """The column of each role that has a use; an error if one is missing that must be there.

        >>> Meaning().find(["user", "item", "rating"], "ratings.csv").rating
        >>> Meaning(min_rating=4).find(["user", "item", "rating"], "ratings.csv").rating
        'rating'
        """
        wishes = self.columns.over(defaults)
        if self.min_rating is None:
            wishes = replace(wishes, rating="")
        if self.event_weights is not None:
            wishes = replace(wishes, weight="")
        found = wishes.find(names, origin)
        there = ", ".join(map(repr, names))
        if self.min_rating is not None and found.rating is None:
            raise InputError(
                f"{origin}: min_rating needs a column of ratings, and none has a usual name "
                f"(the columns are: {there}); name it with rating_column (--rating-column)"
            )
        if self.timestamp_format is not None and found.timestamp is None:
            raise InputError(
                f"{origin}: timestamp_format needs a timestamp column, and none has a usual name "
                f"(the columns are: {there}); name it with timestamp_column (--timestamp-column)"
            )
        return found


def _find(role: str, requested: str | None, names: Sequence[str], origin: str) -> str | None:
    there = ", ".join(map(repr, names)) or "none"
    if requested is None:
        for usual in USUAL_NAMES[role]:
            same = [name for name in names if _plain(name) == usual]
            if len(same) > 1:
                raise InputError(
                    f"{origin}: the columns {' and '.join(map(repr, same))} could both be the "
                    f"{role}; choose one with {role}_column (--{role}-column)"
                )
            if same:
                return same[0]
        if role in REQUIRED:
            raise InputError(
                f"{origin}: no column has a usual name of the {role} (the columns are: {there}); "
                f"name it with {role}_column (--{role}-column)"
            )
        return None
    if requested == "":
        if role in REQUIRED:
            raise InputError(f"{origin}: the {role} column is required")
        return None
    for name in names:
        if requested in (name, _untyped(name)):
            return name
    likely = get_close_matches(requested, names, 1)
    meant = f"; did you mean {likely[0]!r}?" if likely else ""
    raise InputError(
        f"{origin}: there is no column {requested!r}{meant} (the columns are: {there})"
    )


def _untyped(name: str) -> str:
    """The name without the type that RecBole appends: ``user_id`` of ``user_id:token``."""
    return name.split(":")[0]


def _plain(name: str) -> str:
    return "".join(c for c in _untyped(name).casefold() if c not in " _-")
