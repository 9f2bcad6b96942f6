"""The roles of the columns of a table, and their usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

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
    "weight": (
        "weight", "rating", "overall", "stars", "score", "count", "plays", "playcount",
        "listencount", "quantity",
    ),
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

    def named(self) -> list[str]:
        """The roles that have a name."""
        return [f.name for f in fields(self) if getattr(self, f.name) is not None]

    def over(self, others: Columns) -> Columns:
        """These names, completed by others."""
        return replace(others, **{role: getattr(self, role) for role in self.named()})

    def find(self, names: Sequence[str], origin: str) -> Columns:
        """The column of each role in a table with these column names.

        >>> Columns(weight="").find(["movieId", "userId", "rating"], "ratings.csv")
        Columns(user='userId', item='movieId', timestamp=None, weight=None)
        """
        found = {role: _find(role, getattr(self, role), names, origin) for role in USUAL_NAMES}
        chosen = [name for name in found.values() if name is not None]
        for name in chosen:
            if chosen.count(name) > 1:
                roles = " and ".join(role for role in found if found[role] == name)
                raise InputError(f"{origin}: the column {name!r} cannot be both {roles}")
        return Columns(**found)


NO_NAMES = Columns()


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
    raise InputError(f"{origin}: there is no column {requested!r} (the columns are: {there})")


def _untyped(name: str) -> str:
    """The name without the type that RecBole appends: ``user_id`` of ``user_id:token``."""
    return name.split(":")[0]


def _plain(name: str) -> str:
    return "".join(c for c in _untyped(name).casefold() if c not in " _-")
