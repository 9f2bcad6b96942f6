"""The JSON API: one function per address, which passes the request on to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Concatenate, ParamSpec

import orjson
from fastapi import APIRouter, Path, Query, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import PlainTextResponse, Response

from densirank.errors import DensirankError
from densirank.ranking.lists import Unknown
from densirank.serving import browsing, schema
from densirank.serving.batching import Compute
from densirank.serving.engine import Answer, Engine, answer, plain
from densirank.serving.errors import Problem
from densirank.serving.metrics import Metrics
from densirank.serving.reload import LiveModel

P = ParamSpec("P")


@dataclass
class Service:
    """The state shared by the requests of one process."""

    live: LiveModel
    metrics: Metrics
    compute: Compute
    unknown: Unknown  # for requests that do not say


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


UserId = Annotated[str, Path(max_length=schema.MAX_ID, examples=["7"])]
ItemId = Annotated[str, Path(max_length=schema.MAX_ID, examples=["3"])]
Search = Annotated[str, Query(max_length=schema.MAX_QUERY)]
Limit = Annotated[int, Query(ge=1, le=schema.MAX_LISTED)]


ERRORS: dict[int, dict[str, Any]] = {
    code: {"model": schema.ErrorAnswer, "description": description}
    for code, description in {
        400: "The body is not JSON.",
        401: "There is no valid key in the request.",
        404: "The model does not know this user or item.",
        408: "The body came too slowly.",
        409: "The model in the folder cannot be loaded; the old one is still served.",
        413: "The body is too long.",
        422: "The request is invalid.",
        503: "Too many requests are waiting, or this one took too long.",
    }.items()
}


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of an operation, for the OpenAPI description."""
    return {code: ERRORS[code] for code in codes}


v1 = APIRouter(prefix="/v1", responses=_errors(401, 408, 413))
operations = APIRouter()


@v1.post(
    "/recommend",
    response_model=schema.Recommendations,
    responses=_errors(400, 404, 422, 503),
    summary="The most likely next items of users or histories",
)
async def recommend(asked: schema.RecommendRequest, request: Request) -> Response:
    """For known users or for given histories; best first, or drawn with known propensities."""
    service = _service(request)
    engine = service.live.engine
    if asked.unknown is None:
        asked = asked.model_copy(update={"unknown": service.unknown})
    if (job := plain(engine, asked)) is not None:
        return _json(await service.compute.together(engine, job))
    return _json(await service.compute.apart(lambda: answer(engine, asked)))


@v1.get(
    "/users",
    response_model=schema.Users,
    responses=_errors(422, 503),
    summary="Users whose id starts with a text",
)
async def users(request: Request, query: Search = "", limit: Limit = 20) -> Response:
    """In the order of their ids; the first ones if the query is empty."""
    return await _apart(request, browsing.users, query, limit)


@v1.get(
    "/users/{id:path}",
    response_model=schema.UserCard,
    responses=_errors(404, 422, 503),
    summary="One user's items",
)
async def user(id: UserId, request: Request) -> Response:
    """Newest first, with the entropy of the next item."""
    return await _apart(request, browsing.user, id)


@v1.get(
    "/items",
    response_model=schema.Items,
    responses=_errors(422, 503),
    summary="Items by id or title",
)
async def items(request: Request, query: Search = "", limit: Limit = 20) -> Response:
    """Items whose id starts with the query, then items whose title contains its words."""
    return await _apart(request, browsing.items, query, limit)


@v1.get(
    "/items/{id:path}/similar",
    response_model=schema.SimilarItems,
    responses=_errors(404, 422, 503),
    summary="The items most similar to one",
)
async def similar(id: ItemId, request: Request, k: Limit = 10) -> Response:
    """By the cosine of their vectors, or by the weight between them in item-based methods."""
    return await _apart(request, browsing.similar, id, k)


@v1.get("/model", response_model=schema.ModelCard, summary="The model being served")
async def model(request: Request) -> Response:
    """The method, its settings, the training data and the course of training."""
    return _json(orjson.dumps(browsing.card(_service(request).live.engine)))


@v1.post(
    "/reload",
    response_model=schema.Reloaded,
    responses=_errors(409),
    summary="Load the model that the folder holds now",
)
async def reload(request: Request) -> Response:
    """Running requests finish on the old model, which stays if the new one cannot be loaded."""
    service = _service(request)
    try:
        changed = await asyncio.to_thread(service.live.reload)
    except (DensirankError, OSError) as error:
        raise Problem(409, "reload_failed", f"the old model stays: {error}") from error
    return _json(orjson.dumps({"model": service.live.engine.fingerprint, "changed": changed}))


@operations.get("/healthz", response_model=schema.Health, summary="Whether the server is up")
async def healthz() -> Response:
    """Answered by the event loop, even while all threads compute."""
    return _json(b'{"status":"ok"}')


@operations.get("/readyz", response_model=schema.Readiness, summary="Whether a model is served")
async def readyz(request: Request) -> Response:
    """Also whether the last reload failed, so that an older model than the newest is served."""
    live = _service(request).live
    answer = {
        "status": "ready",
        "model": live.engine.fingerprint,
        "last_reload_failed": live.failure is not None,
    }
    return _json(orjson.dumps(answer))


@operations.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "densirank_requests_total 3.0"}}}},
    summary="Metrics for Prometheus",
)
async def metrics(request: Request) -> Response:
    """Requests, seconds, batches, failed reloads and the served model, over all workers."""
    text = await asyncio.to_thread(_service(request).metrics.text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


async def _apart(
    request: Request,
    work: Callable[Concatenate[Engine, P], Answer],
    *args: P.args,
    **kwargs: P.kwargs,
) -> Response:
    service = _service(request)
    engine = service.live.engine
    return _json(await service.compute.apart(lambda: orjson.dumps(work(engine, *args, **kwargs))))


def _json(body: bytes) -> Response:
    return Response(body, media_type="application/json")
