"""Who may ask, and how long a question may be: checked before anything of it is looked at."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from densirank.errors import InputError
from densirank.serving.errors import Problem

GUARDED = "/v1/"
SHORTEST_KEY = 16


class ApiKeys:
    """Keys kept as digests and compared in constant time, all of them every time.

    >>> keys = ApiKeys(["correct-horse-battery"])
    >>> keys.accept("correct-horse-battery"), keys.accept("")
    (True, False)
    """

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, path: Path) -> ApiKeys:
        """The keys of a file, one a line; empty lines and those that begin with # are left out."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise InputError(f"the keys in {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not a text file of keys") from error
        keys = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not keys:
            raise InputError(f"{path} holds no keys")
        if min(map(len, keys)) < SHORTEST_KEY:
            raise InputError(f"{path}: a key must have at least {SHORTEST_KEY} characters")
        return cls(keys)

    def accept(self, key: str) -> bool:
        """Whether this is one of the keys."""
        given = _digest(key)
        matches = [hmac.compare_digest(given, digest) for digest in self._digests]
        return any(matches)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


class Guarded:
    """ASGI middleware: no key, no answer; a body that is too long or too slow is not read on."""

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
            raise Problem(
                401,
                "unauthorised",
                "send one of the server's keys as 'Authorization: Bearer KEY'",
                {"WWW-Authenticate": "Bearer"},
            )

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """A way to receive the body once more, now that it is known to be short enough."""
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
            raise Problem(408, "too_slow", "the request's body did not come in time") from None
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
