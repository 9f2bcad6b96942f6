"""The guide is true: its commands are run, in its order, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide.md"
SECONDS = 240


def _script(guide: str) -> str:
    """All bash and python blocks of a page as one bash script."""
    parts = ["set -euo pipefail"]
    for language, code in re.findall(r"```(bash|python)\n(.*?)```", guide, flags=re.DOTALL):
        parts.append(code if language == "bash" else f"python - <<'END'\n{code}END\n")
    return "\n".join(parts)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide uses curl")
def test_every_command_of_the_guide_works(tmp_path: Path) -> None:
    script = _script(GUIDE.read_text(encoding="utf-8"))
    assert script.count("densirank") > 10
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", script.replace("8000", str(_free_port()))],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert '"kind":"folded-in"' in done.stdout.replace(" ", "")
    assert (tmp_path / "lists.parquet").stat().st_size > 0
    assert (tmp_path / "reliability.png").stat().st_size > 0
