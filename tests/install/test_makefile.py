"""What make does with environments, with an interpreter that only pretends to make them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")

# Answers what the Makefile asks of an interpreter, makes environments of itself, and writes down
# what else it should do. A command that contains the text in FAILS fails.
PYTHON = """#!/bin/sh
here=$(dirname "$0")
case "$*" in
  *print*) echo RELEASE; exit ;;
  *version_info*) exit STATUS ;;
  "-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin" "$folder/lib/pythonRELEASE"
    cp "$0" "$folder/bin/python" ;;
esac
echo "$@" >>"LOG"
if [ -s "FAILS" ]; then
  case "$*" in *"$(cat "FAILS")"*) exit 1 ;; esac
fi
case "$*" in "-m venv"*) touch "$folder/bin/pip" ;; esac
"""


class Checkout:
    """A folder with the Makefile, and interpreters to give it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.log, self.fails = folder / "log", folder / "fails"
        shutil.copy(ROOT / "Makefile", folder)
        for name in ("pyproject.toml", "constraints.txt", "scripts/torch_build.py"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).touch()

    def python(self, release: str, status: int = 0) -> str:
        """The path of an interpreter of this version."""
        path = self.folder / "some where" / f"python{release}"
        path.parent.mkdir(exist_ok=True)
        script = PYTHON.replace("RELEASE", release).replace("STATUS", str(status))
        script = script.replace("LOG", str(self.log)).replace("FAILS", str(self.fails))
        path.write_text(script)
        path.chmod(0o755)
        return str(path)

    def make(self, *words: str, fails: str = "") -> subprocess.CompletedProcess[str]:
        """Run make; ``fails`` is part of a command that fails."""
        self.fails.write_text(fails)
        self.log.write_text("")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
        return subprocess.run(
            ["make", *words],
            cwd=self.folder,
            env={**environment, "PYTHON": "python3", "TORCH": ""},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def done(self) -> list[str]:
        """What the interpreters were told to do by the last make, in a word each."""
        words = {"venv": "venv", "torch_build": "torch", "[dev]": "dev"}
        words |= {"[docs]": "docs extra", "[paper]": "paper extra", "--editable .": "install"}
        words |= {"demo.py": "demo", "pytest": "test", "ensurepip": "ensurepip"}
        words |= {"mkdocs build --strict": "docs", "-m paper all": "paper"}
        lines = self.log.read_text().splitlines()
        return [next(word for part, word in words.items() if part in line) for line in lines]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "a folder with spaces")


def test_an_environment_is_made_once_and_in_order(checkout: Checkout) -> None:
    python = f"PYTHON={checkout.python('3.13')}"
    assert checkout.make("demo", python).returncode == 0
    assert checkout.done() == ["venv", "torch", "install", "demo"]
    assert checkout.make("test", python).returncode == 0
    assert checkout.done() == ["dev", "test"]
    assert checkout.make("test", python).returncode == 0
    assert checkout.done() == ["test"]


@pytest.mark.parametrize("what", ["docs", "paper"])
def test_an_extra_is_installed_for_what_needs_it(checkout: Checkout, what: str) -> None:
    python = f"PYTHON={checkout.python('3.13')}"
    checkout.make("demo", python)
    assert checkout.make(what, python).returncode == 0
    assert checkout.done() == [f"{what} extra", what]
    assert checkout.make(what, python).returncode == 0
    assert checkout.done() == [what]


def test_every_version_has_an_environment_of_its_own(checkout: Checkout) -> None:
    for release in ("3.12", "3.14t"):
        checkout.make("demo", f"PYTHON={checkout.python(release)}")
        assert (checkout.folder / f".venv-{release}" / "installed").exists()


def test_the_default_environment_serves_its_own_version(checkout: Checkout) -> None:
    (checkout.folder / ".venv" / "lib" / "python3.12").mkdir(parents=True)
    checkout.make("demo", f"PYTHON={checkout.python('3.12')}")
    assert (checkout.folder / ".venv" / "installed").exists()
    assert not (checkout.folder / ".venv-3.12").exists()


@pytest.mark.parametrize(
    ("fails", "again"),
    [
        ("-m venv", ["ensurepip", "venv", "torch", "install", "dev", "test"]),
        ("torch_build", ["torch", "install", "dev", "test"]),
        ("--editable .", ["install", "dev", "test"]),
        ("[dev]", ["dev", "test"]),
    ],
)
def test_an_interrupted_install_goes_on_where_it_was(
    checkout: Checkout, fails: str, again: list[str]
) -> None:
    python = f"PYTHON={checkout.python('3.13')}"
    assert checkout.make("test", python, fails=fails).returncode != 0
    assert checkout.make("test", python).returncode == 0
    assert checkout.done() == again


def test_other_constraints_are_installed(checkout: Checkout) -> None:
    python = f"PYTHON={checkout.python('3.13')}"
    checkout.make("demo", python)
    stamp = checkout.folder / ".venv-3.13" / "installed"
    later = stamp.stat().st_mtime + 5
    os.utime(checkout.folder / "constraints.txt", (later, later))
    checkout.make("demo", python)
    assert checkout.done() == ["torch", "install", "demo"]


def test_another_choice_of_torch_is_heard_once(checkout: Checkout) -> None:
    python = f"PYTHON={checkout.python('3.13')}"
    checkout.make("demo", python)
    for done in (["torch", "demo"], ["demo"]):
        assert checkout.make("demo", python, "TORCH=cpu").returncode == 0
        assert checkout.done() == done


def test_part_of_the_suite_can_be_run(checkout: Checkout) -> None:
    checkout.make("test", f"PYTHON={checkout.python('3.13')}", "TESTS=tests/cli tests/contracts")
    assert checkout.log.read_text().endswith(" tests/cli tests/contracts\n")


def test_an_interpreter_that_is_too_old_makes_no_environment(checkout: Checkout) -> None:
    run = checkout.make("demo", f"PYTHON={checkout.python('3.10', status=1)}")
    assert run.returncode == 2
    assert checkout.done() == []


def test_an_interpreter_that_does_not_run_is_named(checkout: Checkout) -> None:
    run = checkout.make("demo", "PYTHON=/no/python")
    assert run.returncode == 2
    assert "PYTHON=/no/python is not a Python interpreter that runs" in run.stderr


def test_every_command_is_in_the_help(checkout: Checkout) -> None:
    makefile = (ROOT / "Makefile").read_text().splitlines()
    phony = [name for line in makefile if line.startswith(".PHONY:") for name in line.split()[1:]]
    lines = checkout.make("help").stdout.splitlines()
    assert {line.split()[0] for line in lines} == set(phony)
