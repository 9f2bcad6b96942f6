"""Virtual environments for the libraries we compare with: made once, and never used half made."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Run = Callable[[list[str]], None]
"""Runs a command and raises if it fails."""


@dataclass(frozen=True)
class Environment:
    """A folder with Python and exactly the packages of a requirements file."""

    folder: Path
    requirements: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def is_complete(self) -> bool:
        """Whether the last thing :meth:`make` does was done, for these requirements."""
        if not (self._mark.is_file() and self.python.exists()):
            return False
        return self._mark.read_text(encoding="utf-8") == self._contents()

    def make(self, run: Run) -> None:
        """Install everything from scratch; delete earlier files first, beginning with the mark."""
        self._mark.unlink(missing_ok=True)
        if self.folder.exists():
            shutil.rmtree(self.folder)
        run([sys.executable, "-m", "venv", str(self.folder)])
        options = ["--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        source = ["--requirement", str(self.requirements)]
        run([str(self.python), "-m", "pip", "install", *options, *source])
        self._mark.write_text(self._contents(), encoding="utf-8")

    @property
    def _mark(self) -> Path:
        return self.folder / "complete.txt"

    def _contents(self) -> str:
        """What decides whether an environment can be used again."""
        requirements = self.requirements.read_text(encoding="utf-8")
        return f"# Python {platform.python_version()}\n{requirements}"
