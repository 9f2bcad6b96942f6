"""The JSON API: one function an address, each a line or two between HTTP and the engine."""

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
from densirank.serving import answers as recommending
from densirank.serving import browsing, schema
from densirank.serving.batching import Compute
from densirank.serving.config import MAX_ID, MAX_LISTED, MAX_QUERY
from densirank.serving.engine import Answer, Engine
from densirank.serving.errors import Problem
from densirank.serving.metrics import Metrics
from densirank.serving.reload import LiveModel

P = ParamSpec("P")


@dataclass
class Service:
    """What the requests of one process share."""

    live: LiveModel
    metrics: Metrics
    compute: Compute


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


UserId = Annotated[str, Path(max_length=MAX_ID, examples=["7"])]
ItemId = Annotated[str, Path(max_length=MAX_ID, examples=["3"])]
Search = Annotated[str, Query(max_length=MAX_QUERY)]
Limit = Annotated[int, Query(ge=1, le=MAX_LISTED)]


ERRORS: dict[int, dict[str, Any]] = {
    code: {"model": schema.ErrorAnswer, "description": description}
    for code, description in {
        400: "The body is not JSON.",
        401: "There is no valid key in the request.",
        404: "The model does not know this user or item.",
        408: "The body came too slowly.",
        409: "The folder's model cannot be loaded; the old one is still served.",
        413: "The body is too long.",
        422: "The request does not say what it should.",
        503: "Too many requests wait, or this one took too long.",
    }.items()
}


def _told(*codes: int) -> dict[int | str, dict[str, Any]]:
    """The error answers of an operation, for its description."""
    return {code: ERRORS[code] for code in codes}


v1 = APIRouter(prefix="/v1", responses=_told(401, 408, 413))
operations = APIRouter()


@v1.post(
    "/recommend",
    response_model=schema.Recommendations,
    responses=_told(400, 404, 422, 503),
    summary="The items people are most likely to want next",
)
async def recommend(asked: schema.RecommendRequest, request: Request) -> Response:
    """For known users or for histories sent along; best first, or drawn with known propensities."""
    service = _service(request)
    engine = service.live.engine
    if (plain := recommending.plain(engine, asked)) is not None:
        return _json(await service.compute.together(engine, plain))
    return _json(await service.compute.apart(lambda: recommending.answer(engine, asked)))


@v1.get(
    "/users",
    response_model=schema.Users,
    responses=_told(422, 503),
    summary="Users whose id begins with a text",
)
async def users(request: Request, query: Search = "", limit: Limit = 20) -> Response:
    """In the order of their ids; the first ones where nothing is searched for."""
    return await _apart(request, browsing.users, query, limit)


@v1.get(
    "/users/{id:path}",
    response_model=schema.UserCard,
    responses=_told(404, 422, 503),
    summary="One user's items",
)
async def user(id: UserId, request: Request) -> Response:
    """Newest first, with the entropy of what comes next."""
    return await _apart(request, browsing.user, id)


@v1.get(
    "/items",
    response_model=schema.Items,
    responses=_told(422, 503),
    summary="Items by their id or title",
)
async def items(request: Request, query: Search = "", limit: Limit = 20) -> Response:
    """Those whose id begins with the query, then those whose title holds its words."""
    return await _apart(request, browsing.items, query, limit)


@v1.get(
    "/items/{id:path}/similar",
    response_model=schema.SimilarItems,
    responses=_told(404, 422, 503),
    summary="The items most similar to one",
)
async def similar(id: ItemId, request: Request, k: Limit = 10) -> Response:
    """By the angle between their vectors, or by their weight where a method has such."""
    return await _apart(request, browsing.similar, id, k)


@v1.get("/model", response_model=schema.ModelCard, summary="What is being served")
async def model(request: Request) -> Response:
    """The method, its settings, the data it was trained on and how training went."""
    return _json(orjson.dumps(browsing.card(_service(request).live.engine)))


@v1.post(
    "/reload",
    response_model=schema.Reloaded,
    responses=_told(409),
    summary="Serve what the model folder holds now",
)
async def reload(request: Request) -> Response:
    """Requests under way finish on the old model, which also stays if the new one is broken."""
    service = _service(request)
    try:
        changed = await asyncio.to_thread(service.live.reload)
    except (DensirankError, OSError) as error:
        raise Problem(409, "reload_failed", f"the old model stays: {error}") from error
    return _json(orjson.dumps({"model": service.live.engine.fingerprint, "changed": changed}))


@operations.get("/healthz", response_model=schema.Health, summary="Whether the server is up")
async def healthz() -> Response:
    """Answered by the event loop alone, whatever is being computed."""
    return _json(b'{"status":"ok"}')


@operations.get("/readyz", response_model=schema.Readiness, summary="Whether a model is served")
async def readyz(request: Request) -> Response:
    """Also tells whether the last reload failed, so that an older model than the newest serves."""
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
    summary="Figures for Prometheus",
)
async def metrics(request: Request) -> Response:
    """Requests, seconds, batches, failed reloads and the model served, over all workers."""
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
