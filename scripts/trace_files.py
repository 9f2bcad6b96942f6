"""Trace the source files that a call passes through, as a measure of readability.

    python scripts/trace_files.py [--write CONTRIBUTING.md]

Counts the files under src/densirank of which a function runs during one CPU training step,
``densirank recommend MODEL --user ID`` and one served request, and prints them in the order in
which they are first entered. Code that runs at import time is not counted. --write regenerates
the tables of the given page.
"""

from __future__ import annotations

import argparse
import ast
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any
from unittest.mock import patch

from torch import Tensor

import densirank
from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.training import loop, step

SOURCE = Path(densirank.__file__).parent


class Trace:
    """The files entered while it is ``on``, by any thread that was started after it was made."""

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.on = False
        self._importing = threading.local()
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        depth = getattr(self._importing, "depth", 0)
        if frame.f_code.co_name == "<module>":
            self._importing.depth = depth + (1 if event == "call" else -1)
        elif event == "call" and self.on and not depth:
            path = Path(frame.f_code.co_filename)
            if path.is_relative_to(SOURCE):
                self.files.setdefault(path.relative_to(SOURCE).as_posix())

    @contextmanager
    def during(self) -> Iterator[None]:
        """Note what is entered in this block."""
        self.on = True
        try:
            yield
        finally:
            self.on = False


def training_step(method: str) -> list[str]:
    """The files of the second step of a fit; the first step includes one-time work."""
    trace, steps_on = Trace(), step.steps_on

    def traced_steps(*args: Any) -> Callable[[int], Tensor]:
        take_step = steps_on(*args)

        def traced(iteration: int) -> Tensor:
            if iteration != 1:
                return take_step(iteration)
            with trace.during():
                return take_step(iteration)

        return traced

    with patch.object(loop, "steps_on", traced_steps):
        _ranker(method)
    return list(trace.files)


def command(folder: Path) -> list[str]:
    """The files of ``densirank recommend FOLDER --user 7``."""
    from densirank.cli.app import app

    trace = Trace()
    with redirect_stdout(StringIO()), trace.during():
        app(["recommend", str(folder), "--user", "7", "--device", "cpu"], standalone_mode=False)
    return list(trace.files)


def request(folder: Path) -> list[str]:
    """The files of ``POST /v1/recommend`` for one known user."""
    from starlette.testclient import TestClient

    from densirank.serving.app import ServeConfig, create_app

    trace = Trace()
    with TestClient(create_app(ServeConfig(folder, watch_seconds=0))) as client, trace.during():
        assert client.post("/v1/recommend", json={"users": [7]}).status_code == 200
    return list(trace.files)


def _ranker(method: str) -> Ranker:
    world = planted(60, 45, items_per_user=8, test_items_per_user=3, seed=2)
    return Ranker(method, dim=8, iterations=3, device="cpu").fit(world.train)


def table(files: list[str]) -> str:
    """A Markdown table of the files, each with the first sentence of its docstring."""
    rows = ["| file | what it is |", "|---|---|"]
    for file in files:
        text = ast.get_docstring(ast.parse((SOURCE / file).read_text(encoding="utf-8"))) or ""
        sentence = " ".join(text.partition("\n\n")[0].split())
        rows.append(f"| `{file}` | {sentence} |")
    return "\n".join(rows)


def write_tables(page: Path, tables: dict[str, list[str]]) -> None:
    """Put the tables between the marks of a page."""
    text = page.read_text(encoding="utf-8")
    for name, files in tables.items():
        begin, end = f"<!-- traced: {name} -->", "<!-- end -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}\n\n{table(files)}\n\n{end}{rest.partition(end)[2]}"
    page.write_text(text, encoding="utf-8")


def main() -> None:
    """Trace each path and print its files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, metavar="PAGE", help="make the tables of this page")
    given = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name) / "model"
        _ranker("wd-mf").save(folder)
        paths = {
            "training step, wd-mf": training_step("wd-mf"),
            "training step, wd-lgcn": training_step("wd-lgcn"),
            "recommend --user": command(folder),
            "POST /v1/recommend": request(folder),
        }
    sys.setprofile(None)
    threading.setprofile(None)
    for what, files in paths.items():
        print(f"{what}: {len(files)}")
        for file in files:
            print(f"  {file}")
    if given.write is not None:
        step_files, _, command_files, request_files = paths.values()
        tables = {"step": step_files, "recommend": command_files, "request": request_files}
        write_tables(given.write, tables)


if __name__ == "__main__":
    main()
