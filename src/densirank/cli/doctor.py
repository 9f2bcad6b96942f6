"""``densirank doctor``: check versions, the machine and a small fit."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import typer
from rich.text import Text

from densirank._version import __version__
from densirank.cli import printing

PACKAGES = ("torch", "numpy", "scipy", "polars", "safetensors", "typer", "rich")


class Finding(NamedTuple):
    """The result of one check."""

    what: str
    found: str
    good: bool = True


def doctor() -> None:
    """Print versions, threads and GPU, and check that a small fit works."""
    findings = list(examine())
    printing.print_table(
        ("what", "found"),
        ((what, Text(found, style="" if good else "red")) for what, found, good in findings),
    )
    if not all(f.good for f in findings):
        raise typer.Exit(1)


def examine() -> Iterator[Finding]:
    """Check everything that a fit needs, then run a small fit."""
    import torch

    yield Finding("densirank", __version__)
    yield Finding("python", f"{platform.python_version()} on {platform.platform()}")
    for package in PACKAGES:
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, "not installed", good=False)
    yield Finding("processors", f"{os.cpu_count()} ({torch.get_num_threads()} threads for torch)")
    yield Finding("gpu", torch.cuda.get_device_name() if torch.cuda.is_available() else "none")
    yield _own_name()
    yield _small_fit()


def _own_name() -> Finding:
    """torchrun connects by the host name, and waits for minutes if it does not resolve."""
    name = socket.getfqdn()
    try:
        return Finding("own name", f"{name} ({socket.gethostbyname(name)})")
    except (OSError, UnicodeError):
        return Finding("own name", f"{name}, not resolved: torchrun needs --local-addr=127.0.0.1")


def _small_fit() -> Finding:
    """A checkerboard: even users have even items, so a held-out even item must come first."""
    import numpy as np

    from densirank import Ranker

    log = [(user, item) for user in range(10) for item in range(10) if (user + item) % 2 == 0]
    ranker = Ranker("wd-lgcn", dim=8, iterations=30, device="auto").fit(log[1:])
    first = ranker.recommend([0], k=1)["item_id"].to_list()
    good = first == [0] and bool(np.isfinite(ranker.scorer_.user_vectors.cpu().numpy()).all())
    found = f"learned a checkerboard on {ranker.scorer_.device.type}"
    return Finding("small fit", found if good else f"recommended {first}, not [0]", good)
