"""Errors as clients see them: a status, a code for programs and a message for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from densirank.errors import InputError

_CODES = {400: "bad_request", 404: "not_found", 405: "method_not_allowed"}


class Problem(Exception):
    """An error that is returned to the client as JSON."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    def response(self) -> Response:
        """The HTTP response."""
        body = orjson.dumps({"error": {"code": self.code, "message": self.message}})
        return Response(body, self.status, self.headers, media_type="application/json")


async def error_response(_: Request, error: Exception) -> Response:
    """The response to any exception that has a status of its own."""
    if isinstance(error, RequestValidationError):
        error = invalid(error.errors())
    elif isinstance(error, HTTPException):
        code = _CODES.get(error.status_code, "http_error")
        error = Problem(error.status_code, code, str(error.detail), error.headers)
    elif isinstance(error, InputError):
        error = Problem(422, "cannot_answer", str(error))
    assert isinstance(error, Problem)
    return error.response()


def invalid(errors: Any) -> Problem:
    """The first validation error of a request."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    return Problem(422, "invalid_request", f"{where}: {first['msg']}" if where else first["msg"])
