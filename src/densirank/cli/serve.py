"""``densirank serve``: serve a model folder over HTTP."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any

import typer

from densirank.cli import printing
from densirank.cli.options import ModelFolder, TitlesOption, UnknownOption
from densirank.errors import InputError

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(process)d %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {
        "densirank.serving": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "uvicorn": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
    },
}
SECONDS_TO_FINISH = 15
"""Seconds that running requests get to finish when the server is stopped."""


def serve(
    model: ModelFolder,
    host: Annotated[
        str, typer.Option(help="Address to listen on; use keys if other machines can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Processes, each with the model.")] = 1,
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="API keys, one per line; /v1/ then requires one."),
    ] = None,
    titles: TitlesOption = None,
    unknown: UnknownOption = "error",
    watch: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="How often to look for a new model; 0: never."),
    ] = 1.0,
    max_seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Time limit of one request.")
    ] = 10.0,
    log_requests: Annotated[
        bool, typer.Option("--log-requests/--no-log-requests", help="Log one line per request.")
    ] = True,
) -> None:
    """Serve a model: a JSON API under /v1/, a page at /, metrics for Prometheus at /metrics.

    A new model in the folder ('densirank fit --out DIR --overwrite') is loaded while the server
    runs.
    """
    try:
        import uvicorn

        from densirank.serving.app import (
            CONFIG_VARIABLE,
            ServeConfig,
            create_app,
            prepare_process,
        )
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed (pip install 'densirank[serve]')"
        ) from error
    config = ServeConfig(
        model,
        titles=titles,
        unknown=unknown,
        api_key_file=api_key_file,
        watch_seconds=watch,
        max_seconds=max_seconds,
        log_requests=log_requests,
    )
    if api_key_file is None and not _is_loopback(host):
        printing.say_warning(
            f"other machines can reach {host} and no key is required; set --api-key-file"
        )
    how: dict[str, Any] = {
        "host": host,
        "port": port,
        "log_config": LOGGING,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": SECONDS_TO_FINISH,
    }
    if workers == 1:
        prepare_process()
        uvicorn.run(create_app(config), **how)
        return
    with tempfile.TemporaryDirectory(prefix="densirank-metrics-") as folder:
        create_app(config)  # report a model that cannot be loaded once, not in every worker
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        os.environ[CONFIG_VARIABLE] = replace(config, metrics_folder=Path(folder)).to_json()
        uvicorn.run("densirank.serving.app:create_worker_app", factory=True, workers=workers, **how)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
