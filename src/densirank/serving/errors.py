"""Errors as clients see them: a status, a code for programs and a sentence for people."""

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
    """Something the client is told in a structured answer."""

    def __init__(
        self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers

    def response(self) -> Response:
        """The answer that says so."""
        body = orjson.dumps({"error": {"code": self.code, "message": self.message}})
        return Response(body, self.status, self.headers, media_type="application/json")


async def told(_: Request, problem: Exception) -> Response:
    """The answer to whatever went wrong in a way that has a status."""
    if isinstance(problem, RequestValidationError):
        problem = invalid(problem.errors())
    elif isinstance(problem, HTTPException):
        code = _CODES.get(problem.status_code, "http_error")
        problem = Problem(problem.status_code, code, str(problem.detail), problem.headers)
    elif isinstance(problem, InputError):
        problem = Problem(422, "cannot_answer", str(problem))
    assert isinstance(problem, Problem)
    return problem.response()


def invalid(errors: Any) -> Problem:
    """A request that does not say what it should, told by its first fault."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    return Problem(422, "invalid_request", f"{where}: {first['msg']}" if where else first["msg"])


def unknown(what: str, identifier: object) -> Problem:
    """A user or an item that the model has never met."""
    return Problem(404, f"unknown_{what}", f"the model does not know the {what} {identifier}")
