"""Requests made up from the API's own description: no 5xx, and no answer it does not describe."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import schemathesis
import uvicorn
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from densirank import Ranker
from densirank.serving.app import ServeConfig, create_app

HELD_TO = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
OPERATIONS = 10


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server on a port of its own, whose users and items are small numbers: guesses hit."""
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    pairs = [(user, item) for user in range(40) for item in range(40) if (user + item) % 3]
    Ranker("wd-mf", dim=2, iterations=5, device="cpu").fit(pairs).save(folder)
    app = create_app(ServeConfig(folder, watch_seconds=0, log_requests=False))
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    ("mode", "most_are"),
    [(schemathesis.GenerationMode.POSITIVE, 200), (schemathesis.GenerationMode.NEGATIVE, 422)],
)
def test_no_made_up_request_meets_a_defect(
    address: str, mode: schemathesis.GenerationMode, most_are: int
) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
    met: Counter[int] = Counter()
    operations = [op.ok() for op in schema.get_all_operations() if isinstance(op, Ok)]
    assert len(operations) == OPERATIONS
    for operation in operations:

        @settings(
            max_examples=10,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def try_out(case: schemathesis.Case[Any]) -> None:
            answer = case.call(headers={"Connection": "close"})
            met[answer.status_code] += 1
            case.validate_response(answer, checks=HELD_TO)

        with suppress(Unsatisfiable):  # what takes no input cannot be asked wrongly
            try_out()
    assert met[most_are] > OPERATIONS, met
