"""Requests and responses, of which the OpenAPI description is made, and their limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from densirank.ranking.lists import RankBy, Unknown

MAX_K = 1000
MAX_USERS = 100
MAX_HISTORY = 1000
"""Items of one history."""
MAX_ITEMS = 10_000
"""Items in ``items`` or ``exclude``."""
MAX_EXPLAINED = 100
"""Listed items of one request with ``explain``."""
MAX_QUERY = 100
"""Characters of a search."""
MAX_LISTED = 200
"""Rows of a search or of a user's history in one response."""
MAX_ID = 256
"""Characters of an id."""

Id = (
    Annotated[StrictInt, Field(ge=-(2**63) + 1, lt=2**63)]
    | Annotated[StrictStr, Field(max_length=MAX_ID)]
)


def _examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class RecommendRequest(BaseModel):
    """A request for lists: users or histories, constraints and options."""

    model_config = {"extra": "forbid"} | _examples(
        {"users": [7], "k": 5},
        {"histories": [[3, 14]], "k": 5, "explain": True},
        {"users": [7], "k": 5, "sample": True, "temperature": 1.5, "seed": 1},
    )

    users: list[Id] | None = Field(None, min_length=1, max_length=MAX_USERS)
    histories: list[Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)]] | None = (
        Field(None, min_length=1, max_length=MAX_USERS)
    )
    k: StrictInt = Field(10, ge=1, le=MAX_K)
    exclude: list[Id] = Field(default_factory=list, max_length=MAX_ITEMS)
    items: list[Id] | None = Field(None, min_length=1, max_length=MAX_ITEMS)
    filter_seen: bool = True
    unknown: Unknown | None = Field(
        None, description="What unknown users get. Default: what the service was started with."
    )
    sample: bool = False
    temperature: float = Field(1.0, ge=0.01, le=100, allow_inf_nan=False)
    seed: StrictInt | None = Field(None, ge=0, lt=2**63)
    explain: bool = False
    approximate: bool = False
    rank_by: RankBy = "score"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.users is None) == (self.histories is None):
            raise ValueError("pass exactly one of users and histories")
        if self.explain and self.k * self.size > MAX_EXPLAINED:
            raise ValueError(f"explain takes at most {MAX_EXPLAINED} listed items in all")
        if self.approximate and self.sample:
            raise ValueError(
                "sample and approximate are mutually exclusive: a draw needs every item"
            )
        if self.rank_by != "score" and (self.sample or self.approximate):
            raise ValueError("rank_by cannot be combined with sample or approximate")
        return self

    @property
    def size(self) -> int:
        """How many lists are asked for."""
        return len(self.users or self.histories or ())

    @property
    def is_plain(self) -> bool:
        """Whether this asks for the best items of users, without any other option."""
        special = self.sample or self.explain or self.approximate or self.rank_by != "score"
        return not (special or self.items or self.exclude or self.users is None)


class Item(BaseModel):
    """An item and its title."""

    id: int | str
    title: str | None


class Reason(Item):
    """A past item, and how much lower the score of a listed item is without it."""

    contribution: float


class RecommendedItem(Item):
    """One item of a list."""

    score: float
    probability: float | None
    log_propensity: float | None
    because: list[Reason] | None


class Result(BaseModel):
    """The list of one person, with the entropy of p(i|u)."""

    user: int | str | None
    kind: Literal["known", "folded-in", "popular", "skipped"]
    items: list[RecommendedItem]
    entropy: float | None
    effective_items: float | None


class Recommendations(BaseModel):
    """One result per user or history, in the order of the request.

    ``unknown_items`` counts the ids in ``items``, ``exclude`` and histories that were ignored.
    """

    model_config = _examples(
        {
            "model": "8261631abfb170e9",
            "seed": None,
            "unknown_items": 0,
            "results": [
                {
                    "user": 7,
                    "kind": "known",
                    "items": [
                        {
                            "id": 3,
                            "title": "Tea",
                            "score": 4.1,
                            "probability": 0.021,
                            "log_propensity": None,
                            "because": None,
                        }
                    ],
                    "entropy": 7.9,
                    "effective_items": 2697.3,
                }
            ],
        }
    )

    model: str
    seed: int | None
    unknown_items: int
    results: list[Result]


class UserRow(BaseModel):
    """A user in a search result."""

    id: int | str
    items: int


class Users(BaseModel):
    """Users whose id starts with the query."""

    model_config = _examples({"users": [{"id": 7, "items": 31}]})

    users: list[UserRow]


class ItemRow(Item):
    """An item in a search result."""

    popularity: int


class Items(BaseModel):
    """Items whose id starts with the query or whose title contains its words."""

    model_config = _examples({"items": [{"id": 3, "title": "Tea", "popularity": 812}]})

    items: list[ItemRow]


class SimilarItem(Item):
    """An item and its similarity."""

    score: float


class SimilarItems(BaseModel):
    """Similar items, the most similar first."""

    model_config = _examples({"items": [{"id": 14, "title": "Jam", "score": 0.93}]})

    items: list[SimilarItem]


class UserCard(BaseModel):
    """A user's items, newest first, and the entropy of the next one."""

    model_config = _examples(
        {
            "id": 7,
            "history": [{"id": 3, "title": "Tea"}],
            "entropy": 7.9,
            "effective_items": 2697.3,
        }
    )

    id: int | str
    history: list[Item]
    entropy: float
    effective_items: float


class ModelCard(BaseModel):
    """The model being served."""

    model_config = _examples(
        {
            "model": "8261631abfb170e9",
            "method": "wd-lgcn",
            "summary": "LightGCN, WD risk, norm clipping",
            "settings": {"dim": 64},
            "seed": 0,
            "created": "2026-01-01T12:00:00+00:00",
            "densirank": "1.0.0",
            "data": {"users": 29858, "items": 40981, "pairs": 810128},
            "training": {"iterations": 300, "seconds": 61.2},
            "calibration": None,
            "index": None,
            "metrics": None,
        }
    )

    method: str
    summary: str
    settings: dict[str, Any]
    seed: int
    created: str
    densirank: str
    data: dict[str, Any]
    training: dict[str, Any]
    calibration: dict[str, Any] | None
    index: dict[str, Any] | None
    metrics: dict[str, Any] | None
    model: str


class Reloaded(BaseModel):
    """The model served now, and whether it differs from the one before."""

    model_config = _examples({"model": "8261631abfb170e9", "changed": True})

    model: str
    changed: bool


class Health(BaseModel):
    """Whether the server is up."""

    model_config = _examples({"status": "ok"})

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether requests can be answered, and whether the last reload failed."""

    model_config = _examples(
        {"status": "ready", "model": "8261631abfb170e9", "last_reload_failed": False}
    )

    status: Literal["ready"]
    model: str
    last_reload_failed: bool


class ErrorBody(BaseModel):
    """A code for programs and a message for people."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """An error response."""

    model_config = _examples(
        {"error": {"code": "unknown_user", "message": "the model does not know the user 7"}}
    )

    error: ErrorBody
