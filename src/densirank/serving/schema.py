"""What requests may say and what answers look like; the OpenAPI description is made of these."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from densirank.serving.config import (
    MAX_EXPLAINED,
    MAX_HISTORY,
    MAX_ID,
    MAX_ITEMS,
    MAX_K,
    MAX_USERS,
)

Id = (
    Annotated[StrictInt, Field(ge=-(2**63) + 1, lt=2**63)]
    | Annotated[StrictStr, Field(max_length=MAX_ID)]
)


def _example(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": list(examples)})


class RecommendRequest(BaseModel):
    """For whom, how many, among what, and how."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"users": [7], "k": 5},
                {"histories": [[3, 14]], "k": 5, "explain": True},
                {"users": [7], "k": 5, "sample": True, "temperature": 1.5, "seed": 1},
            ]
        },
    )

    users: list[Id] | None = Field(None, min_length=1, max_length=MAX_USERS)
    histories: list[Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)]] | None = (
        Field(None, min_length=1, max_length=MAX_USERS)
    )
    k: StrictInt = Field(10, ge=1, le=MAX_K)
    exclude: list[Id] = Field(default_factory=list, max_length=MAX_ITEMS)
    items: list[Id] | None = Field(None, min_length=1, max_length=MAX_ITEMS)
    filter_seen: bool = True
    unknown: Literal["error", "popular"] = "error"
    sample: bool = False
    temperature: float = Field(1.0, ge=0.01, le=100, allow_inf_nan=False)
    seed: StrictInt | None = Field(None, ge=0, lt=2**63)
    explain: bool = False
    approximate: bool = False

    @model_validator(mode="after")
    def _says_for_whom(self) -> Self:
        if (self.users is None) == (self.histories is None):
            raise ValueError("pass exactly one of users and histories")
        if self.explain and self.k * self.size > MAX_EXPLAINED:
            raise ValueError(f"explain is for at most {MAX_EXPLAINED} items in one answer")
        if self.approximate and self.sample:
            raise ValueError("a draw is over the whole catalogue: sample is never approximate")
        return self

    @property
    def size(self) -> int:
        """For how many people."""
        return len(self.users or self.histories or ())

    @property
    def is_plain(self) -> bool:
        """Whether this asks for known users' best items and nothing else."""
        special = self.sample or self.explain or self.approximate or self.items is not None
        return not (special or self.exclude or self.users is None)


class Reason(BaseModel):
    """A past item, and what the score of a listed item loses without it."""

    id: int | str
    title: str | None
    contribution: float


class RecommendedItem(BaseModel):
    """One item of a list."""

    id: int | str
    title: str | None
    score: float
    probability: float | None
    log_propensity: float | None
    because: list[Reason] | None


class Result(BaseModel):
    """The list of one person, and how spread out that person's distribution is."""

    user: int | str | None
    kind: Literal["known", "folded-in", "popular"]
    items: list[RecommendedItem]
    entropy: float | None
    effective_items: float | None


class Recommendations(BaseModel):
    """One result for each person asked for, in the order of the request."""

    model_config = _example(
        {
            "model": "8261631abfb170e9",
            "seed": None,
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
    results: list[Result]


class UserRow(BaseModel):
    """A user as a search shows it."""

    id: int | str
    items: int


class Users(BaseModel):
    """Users whose id begins with the query."""

    model_config = _example({"users": [{"id": 7, "items": 31}]})

    users: list[UserRow]


class Item(BaseModel):
    """An item and its title."""

    id: int | str
    title: str | None


class ItemRow(Item):
    """An item as a search shows it."""

    popularity: int


class Items(BaseModel):
    """Items whose id begins with the query or whose title holds its words."""

    model_config = _example({"items": [{"id": 3, "title": "Tea", "popularity": 812}]})

    items: list[ItemRow]


class SimilarItem(Item):
    """An item and how similar it is."""

    score: float


class SimilarItems(BaseModel):
    """The most similar first."""

    model_config = _example({"items": [{"id": 14, "title": "Jam", "score": 0.93}]})

    items: list[SimilarItem]


class UserCard(BaseModel):
    """A user's items, newest first, and how spread out the distribution of the next one is."""

    model_config = _example(
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
    """What is being served."""

    model_config = _example(
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
    """Which model is served now, and whether it is another one than before."""

    model_config = _example({"model": "8261631abfb170e9", "changed": True})

    model: str
    changed: bool


class Health(BaseModel):
    """Whether the server is up."""

    model_config = _example({"status": "ok"})

    status: Literal["ok"]


class Readiness(BaseModel):
    """Whether requests can be answered, and whether the folder's newest model is the one served."""

    model_config = _example(
        {"status": "ready", "model": "8261631abfb170e9", "last_reload_failed": False}
    )

    status: Literal["ready"]
    model: str
    last_reload_failed: bool


class ErrorBody(BaseModel):
    """A code for programs and a sentence for people."""

    code: str
    message: str


class ErrorAnswer(BaseModel):
    """What every error looks like."""

    model_config = _example(
        {"error": {"code": "unknown_user", "message": "the model does not know the user 7"}}
    )

    error: ErrorBody
