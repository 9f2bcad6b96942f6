"""What the commands share: where they print, how they end, and options that several have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

out = Console(soft_wrap=True)
err = Console(stderr=True)

DeviceOption = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the named public sets.", envvar="DENSIRANK_DATA"),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
