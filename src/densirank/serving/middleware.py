"""Around every request: an id, a log line, figures, safe headers, and no traceback to clients."""

from __future__ import annotations

import logging
import re
import secrets
import time
from itertools import count

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from densirank.serving.errors import Problem
from densirank.serving.metrics import Metrics

log = logging.getLogger("densirank.serving")

REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
SAFE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class Observed:
    """ASGI middleware; the outermost one."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log_requests: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._log_requests = log_requests
        start = secrets.token_hex(4)
        self._ids = (f"{start}-{number}" for number in count(1))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _given_id(scope) or next(self._ids)
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers.update(SAFE_HEADERS)
            await send(message)

        try:
            await self._app(scope, receive, send_with_headers)
        except Exception:
            log.exception("request %s failed", request_id)
            if status:
                raise  # half an answer is out; the server closes the connection
            problem = Problem(500, "internal", f"something went wrong (request {request_id})")
            await problem.response()(scope, receive, send_with_headers)
        finally:
            self._note(scope, status, time.perf_counter() - started, request_id)

    def _note(self, scope: Scope, status: int, seconds: float, request_id: str) -> None:
        route = getattr(scope.get("route"), "path_format", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.requests.labels(method, route, status).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        if self._log_requests:
            log.info(
                "request %s %s %r %d %.1f ms",
                request_id,
                method,
                scope["path"],
                status,
                seconds * 1000,
            )


def _given_id(scope: Scope) -> str | None:
    """The client's own id of its request, where it is a decent one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            given: str = value.decode("latin-1")
            return given if REQUEST_ID.fullmatch(given) else None
    return None
