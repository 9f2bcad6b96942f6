"""ASGI middleware: request ids, logs, metrics, safe headers; API keys and limits on bodies."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
from itertools import count
from pathlib import Path

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from densirank.errors import InputError
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
GUARDED = "/v1/"
"""Paths that require a key."""
MIN_KEY_LENGTH = 16


class Observed:
    """The outermost middleware: it names, times and logs requests and hides tracebacks."""

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
        given = _header(scope, b"x-request-id")
        request_id = given if REQUEST_ID.fullmatch(given) else next(self._ids)
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
                raise  # part of the response was sent; the server closes the connection
            problem = Problem(500, "internal", f"something went wrong (request {request_id})")
            await problem.response()(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - started
            route = getattr(scope.get("route"), "path_format", "unmatched")
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._metrics.requests.labels(method, route, status).inc()
            self._metrics.seconds.labels(route).observe(seconds)
            if self._log_requests:
                told = (request_id, method, scope["path"], status, seconds * 1000)
                log.info("request %s %s %r %d %.1f ms", *told)


class ApiKeys:
    """API keys, kept as digests; every key is compared, in constant time.

    >>> keys = ApiKeys(["correct-horse-battery"])
    >>> keys.accept("correct-horse-battery"), keys.accept("")
    (True, False)
    """

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """Read a file with one key a line; empty lines and lines starting with # are skipped."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InputError(f"the keys in {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not a text file of keys") from error
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise InputError(f"{path} holds no keys")
        if min(map(len, keys)) < MIN_KEY_LENGTH:
            raise InputError(f"{path}: a key must have at least {MIN_KEY_LENGTH} characters")
        return cls(keys)

    def accept(self, key: str) -> bool:
        """Whether this is one of the keys."""
        given = _digest(key)
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Guarded:
    """Requires a key under ``/v1/`` and refuses a body that is too long or too slow."""

    def __init__(
        self, app: ASGIApp, keys: ApiKeys | None, max_body_bytes: int, max_seconds: float
    ) -> None:
        self._app = app
        self._keys = keys
        self._max_body_bytes = max_body_bytes
        self._max_seconds = max_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check_key(scope)
                receive = await self._whole_body(scope, receive)
            except Problem as problem:
                await problem.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_key(self, scope: Scope) -> None:
        if self._keys is None or not scope["path"].startswith(GUARDED):
            return
        scheme, _, key = _header(scope, b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not self._keys.accept(key.strip()):
            message = "send one of the server's keys as 'Authorization: Bearer KEY'"
            raise Problem(401, "unauthorised", message, {"WWW-Authenticate": "Bearer"})

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """Receive the whole body within the limits; the result receives it again."""
        declared = _header(scope, b"content-length")
        if not declared and not _header(scope, b"transfer-encoding"):
            return receive
        if declared.isdecimal() and int(declared) > self._max_body_bytes:
            raise self._too_large()
        body, ended = bytearray(), False
        try:
            async with asyncio.timeout(self._max_seconds):
                while not ended:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        break
                    body += message.get("body", b"")
                    ended = not message.get("more_body", False)
                    if len(body) > self._max_body_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise Problem(408, "too_slow", "the body of the request came too slowly") from None
        given = False

        async def replay() -> Message:
            nonlocal given
            if given or not ended:
                return await receive() if ended else {"type": "http.disconnect"}
            given = True
            return {"type": "http.request", "body": bytes(body), "more_body": False}

        return replay

    def _too_large(self) -> Problem:
        most = self._max_body_bytes
        return Problem(413, "too_large", f"a request may have at most {most:,} bytes")


def _header(scope: Scope, wanted: bytes) -> str:
    return next((value.decode("latin-1") for name, value in scope["headers"] if name == wanted), "")
