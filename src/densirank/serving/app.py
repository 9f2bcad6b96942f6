"""The application: its configuration, the API, the page and the middleware."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from densirank._version import __version__
from densirank.errors import InputError
from densirank.ranking.lists import Unknown
from densirank.serving.batching import Compute
from densirank.serving.errors import Problem, error_response
from densirank.serving.metrics import Metrics
from densirank.serving.middleware import ApiKeys, Guarded, Observed
from densirank.serving.reload import LiveModel
from densirank.serving.routes import Service, operations, v1

PAGE = Path(__file__).parent / "page"
CONFIG_VARIABLE = "DENSIRANK_SERVE"
"""The environment variable that holds the configuration of a worker process."""


@dataclass(frozen=True)
class ServeConfig:
    """The configuration of a server; worker processes receive it as JSON."""

    folder: Path
    titles: Path | None = None
    unknown: Unknown = "error"  # for requests that do not say
    api_key_file: Path | None = None
    watch_seconds: float = 1.0  # between two looks at the folder; 0: never
    max_body_bytes: int = 1 << 20
    max_seconds: float = 10.0  # for one request, waiting included
    max_waiting: int = 512  # requests that may wait for their turn; more are refused
    log_requests: bool = True
    metrics_folder: Path | None = None  # shared by the workers, whose metrics are added up

    def to_json(self) -> str:
        """The configuration as JSON."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> ServeConfig:
        """The inverse of :meth:`to_json`.

        >>> config = ServeConfig(Path("model"), max_seconds=2)
        >>> ServeConfig.from_json(config.to_json()) == config
        True
        """
        fields: dict[str, Any] = json.loads(text)
        for name in ("folder", "titles", "api_key_file", "metrics_folder"):
            if fields[name] is not None:
                fields[name] = Path(fields[name])
        return cls(**fields)


def create_app(config: ServeConfig) -> FastAPI:
    """The application with its model loaded; raises if the model or the keys cannot be read."""
    keys = None if config.api_key_file is None else ApiKeys.read(config.api_key_file)
    metrics = Metrics(config.metrics_folder)
    live = LiveModel(config.folder, config.titles, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        compute = Compute(config.max_waiting, config.max_seconds, metrics.batched.observe)
        app.state.service = Service(live, metrics, compute, config.unknown)
        seconds = config.watch_seconds
        watching = asyncio.create_task(live.watch(seconds)) if seconds else None
        yield
        if watching is not None:
            watching.cancel()
        await asyncio.to_thread(compute.close)

    app = FastAPI(
        title="densirank",
        version=__version__,
        summary="Personal rankings, with the probability of every item.",
        lifespan=lifespan,
        docs_url=None,  # its scripts would come from another server
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers=dict.fromkeys(
            (Problem, InputError, HTTPException, RequestValidationError), error_response
        ),
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
    """Set up a process for serving: one thread per request, and short thread switch intervals."""
    torch.set_num_threads(1)  # requests run in parallel; threads within one would compete
    sys.setswitchinterval(0.0005)  # the event loop must not wait for answers being computed


def create_worker_app() -> FastAPI:
    """The application of a worker process, whose configuration is in the environment."""
    prepare_process()
    return create_app(ServeConfig.from_json(os.environ[CONFIG_VARIABLE]))


def _add_page(app: FastAPI) -> None:
    """Serve each file of the page at its own address; all other addresses stay free."""
    files = StaticFiles(directory=PAGE)

    async def page(request: Request) -> Response:
        path = request.url.path.removeprefix("/") or "index.html"
        response = await files.get_response(path, request.scope)
        response.headers["Cache-Control"] = "no-cache"
        return response

    paths = sorted(path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file())
    for address in ("", *paths):
        app.add_api_route(f"/{address}", page, include_in_schema=False)
