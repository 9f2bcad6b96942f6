"""The guide and the README are true: their code is run, in its order, in an empty folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from forking import free_port

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "guide.md"
README = ROOT / "README.md"
WARM = ROOT / "tests" / "tools" / "warm.py"
SECONDS = 240
SHOWN = re.compile(r"```text\n(.*?)```", flags=re.DOTALL)
BUDGETS = {"--budget 20s": "--budget 3s", '"5s"': '"1s"'}
"""Time a reader gives `fit` to choose, and what is enough to see that it chooses."""


def _script(guide: str) -> str:
    """All bash and python blocks of a page as one bash script."""
    parts = ["set -euo pipefail"]
    for language, code in re.findall(r"```(bash|python)\n(.*?)```", guide, flags=re.DOTALL):
        parts.append(code if language == "bash" else f"python - <<'END'\n{code}END\n")
    return "\n".join(parts)


def _run(words: list[str], folder: Path, tools: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, "PATH": tools},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PATH with a ``densirank`` that need not load everything each time."""
    folder = tmp_path_factory.mktemp("bin")
    meeting = folder / "meeting"
    command = folder / "densirank"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{WARM}" ask "{meeting}" "$@"\n')
    command.chmod(0o755)
    keeper = subprocess.Popen([sys.executable, WARM, "keep", meeting])
    try:
        deadline = time.monotonic() + SECONDS
        while not meeting.exists():
            assert keeper.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    finally:
        keeper.kill()
        keeper.wait()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the guide uses curl")
def test_every_command_of_the_guide_works(tmp_path: Path, tools: str) -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    script = _script(guide)
    assert script.count("densirank") > 10
    for told, spent in BUDGETS.items():
        assert script.count(told) == 1
        script = script.replace(told, spent)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    done = _run(["bash", "-c", script.replace("8000", str(free_port()))], tmp_path, tools)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert '"kind":"folded-in"' in done.stdout.replace(" ", "")
    for shown in SHOWN.findall(guide):
        if "pip install" not in shown:
            assert shown in done.stdout + done.stderr
    assert '"kind":"known"' in done.stdout.replace(" ", "").split('"changed":')[-1]
    assert (tmp_path / "lists.parquet").stat().st_size > 0
    assert (tmp_path / "reliability.png").stat().st_size > 0


def test_the_guide_installs_extras_that_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extras,) = re.findall(r"pip install .*'\.\[(.+)\]'", GUIDE.read_text(encoding="utf-8"))
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_the_example_of_the_readme_works(tmp_path: Path, tools: str) -> None:
    readme = README.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, flags=re.DOTALL)
    assert code.count('"10s"') == 1
    _run(["python", str(ROOT / "examples" / "bookshop.py"), "shop"], tmp_path, tools)
    done = _run(["python", "-c", code.replace('"10s"', '"1s"')], tmp_path, tools)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.count("ada.01") >= 12
    assert "zoe" in done.stdout


def test_a_command_that_fails_fails_and_says_why(tmp_path: Path, tools: str) -> None:
    """Or the guide could not fail."""
    done = _run(["densirank", "evaluate", "nothing", "nowhere"], tmp_path, tools)
    assert done.returncode == 2
    assert "nothing" in done.stderr
