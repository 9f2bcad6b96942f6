"""The application: the API, the page, and what stands around both."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import torch
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from densirank import __version__
from densirank.errors import InputError
from densirank.serving.auth import ApiKeys, Guarded
from densirank.serving.batching import Compute
from densirank.serving.config import ServeConfig
from densirank.serving.errors import Problem, told
from densirank.serving.metrics import Metrics
from densirank.serving.middleware import Observed
from densirank.serving.reload import LiveModel
from densirank.serving.routes import Service, operations, v1

PAGE = Path(__file__).parent / "page"
CONFIG_VARIABLE = "DENSIRANK_SERVE"
"""The environment variable by which a worker process is told its configuration."""


def create_app(config: ServeConfig) -> FastAPI:
    """An application with its model loaded; raises what is wrong with the model or the keys."""
    keys = None if config.api_key_file is None else ApiKeys.read(config.api_key_file)
    metrics = Metrics(config.metrics_folder)
    live = LiveModel(config, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        compute = Compute(config.max_waiting, config.max_seconds, metrics.batched.observe)
        app.state.service = Service(live, metrics, compute)
        watching = asyncio.create_task(live.watch()) if config.watch_seconds else None
        yield
        if watching is not None:
            watching.cancel()
        await asyncio.to_thread(compute.close)

    app = FastAPI(
        title="densirank",
        version=__version__,
        summary="Personal rankings, with the probability of every item.",
        lifespan=lifespan,
        docs_url=None,  # its scripts would come from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={
            Problem: told,
            InputError: told,
            HTTPException: told,
            RequestValidationError: told,
        },
    )
    app.include_router(v1)
    app.include_router(operations)
    _add_page(app)
    app.add_middleware(
        Guarded,
        keys=keys,
        max_body_bytes=config.max_body_bytes,
        max_seconds=config.max_seconds,
    )
    app.add_middleware(Observed, metrics=metrics, log_requests=config.log_requests)
    return app


def prepare_process() -> None:
    """Set a process up to serve: its threads share the cores, and hand over to each other soon."""
    torch.set_num_threads(1)  # requests run beside each other; threads within one would fight
    sys.setswitchinterval(0.0005)  # the event loop must not wait for answers being put together


def create_worker_app() -> FastAPI:
    """The application of a worker process, which finds its configuration in the environment."""
    prepare_process()
    return create_app(ServeConfig.from_json(os.environ[CONFIG_VARIABLE]))


def _add_page(app: FastAPI) -> None:
    """Serve the files of the page, each at its own address, so that no other address is taken."""
    files = StaticFiles(directory=PAGE)

    async def page(request: Request) -> Response:
        path = request.url.path.removeprefix("/") or "index.html"
        response = await files.get_response(path, request.scope)
        response.headers["Cache-Control"] = "no-cache"
        return response

    paths = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file())
    for address in ("", *paths):
        app.add_api_route(f"/{address}", page, include_in_schema=False)
