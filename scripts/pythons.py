"""Find the Python interpreters of this machine and run the test suite on each.

``python3 scripts/pythons.py`` lists them, ``--other`` prints the path of the newest that is not of
this interpreter's version, ``--test`` runs ``make test`` on each, in an environment of its own, and
prints a line for each. Only the standard library is used.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / "build"
NAME = re.compile(r"python3\.(\d+)")
SECONDS_TO_ANSWER = 20
QUESTION = """
import importlib.util, sys
print(sys.implementation.name, sys.version_info.releaselevel, "%d.%d.%d" % sys.version_info[:3])
print(all(map(importlib.util.find_spec, ("venv", "ensurepip"))))
"""


@dataclass(frozen=True)
class Interpreter:
    """A released CPython that runs."""

    path: Path
    release: str
    makes_environments: bool

    @property
    def minor(self) -> int:
        """The N of 3.N."""
        return int(self.release.split(".")[1])


def ask(path: Path) -> Interpreter | None:
    """What an interpreter says of itself; None if it is not a released CPython that runs."""
    try:
        answer = subprocess.run(
            [path, "-c", QUESTION],
            capture_output=True,
            text=True,
            timeout=SECONDS_TO_ANSWER,
            check=True,
        ).stdout.split()
        implementation, level, release, makes_environments = answer
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if (implementation, level) != ("cpython", "final"):
        return None
    return Interpreter(path, release, makes_environments == "True")


def places() -> Iterator[Path]:
    """Where interpreters may be, the one that runs this first."""
    yield Path(sys.executable)
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in (*folders, *sorted(pyenv.glob("versions/*/bin"))):
        for path in sorted(folder.glob("python3.*")):
            name = NAME.fullmatch(path.name)
            if name and int(name[1]) >= OLDEST[1]:
                yield path


def interpreters() -> list[Interpreter]:
    """One interpreter for each version 3.N from 3.11 on, oldest first; the first found counts."""
    found: dict[int, Interpreter] = {}
    for path in places():
        interpreter = ask(path)
        if interpreter and interpreter.minor >= OLDEST[1]:
            found.setdefault(interpreter.minor, interpreter)
    return [found[minor] for minor in sorted(found)]


def counts(log: str) -> str:
    """Pytest's last line without its time: ``3 failed, 1204 passed, 12 skipped``."""
    lines = re.findall(r"^=*\s*(\d+ \w+(?:, \d+ \w+)*) in [\d.]+s", log, flags=re.MULTILINE)
    return lines[-1] if lines else "no tests were run"


def test(interpreter: Interpreter) -> bool:
    """Run the suite on one interpreter, print its line, and say whether it passed."""
    LOGS.mkdir(exist_ok=True)
    log = LOGS / f"test-3.{interpreter.minor}.log"
    # The make that started this one must not pass on its own PYTHON.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    started = time.monotonic()
    with log.open("w", encoding="utf-8") as file:
        run = subprocess.run(
            ["make", "test", f"PYTHON={interpreter.path}"],
            cwd=ROOT,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    seconds = time.monotonic() - started
    passed = run.returncode == 0
    verdict = "passed" if passed else "failed"
    summary = counts(log.read_text(encoding="utf-8", errors="replace"))
    where = "" if passed else f"  (see {log.relative_to(ROOT)})"
    print(f"{interpreter.release:8} {verdict:8} {seconds:6.0f} s  {summary}{where}", flush=True)
    return passed


def test_all() -> int:
    """Run the suite on every interpreter; 1 if it failed on any."""
    failed = False
    for interpreter in interpreters():
        if interpreter.makes_environments:
            failed |= not test(interpreter)
        else:
            missing = "it has no venv module or no ensurepip"
            print(f"{interpreter.release:8} skipped            {missing}", flush=True)
    return int(failed)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="The CPythons of this machine, from 3.11")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--other", action="store_true", help="the newest of another version: path")
    what.add_argument("--test", action="store_true", help="run make test on each")
    options = parser.parse_args()
    if options.test:
        return test_all()
    found = interpreters()
    if options.other:
        usable = [one for one in found if one.makes_environments]
        others = [one.path for one in usable if one.minor != sys.version_info.minor]
        print(*others[-1:])
    else:
        print("\n".join(f"{one.release:8} {one.path}" for one in found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
