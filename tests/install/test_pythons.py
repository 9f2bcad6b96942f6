"""Which interpreters are found, and what is reported of the suite on each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import pythons

THIS = sys.version_info.minor
NEXT = THIS + 1
RELEASE = "{}.{}.{}".format(*sys.version_info[:3])


def _program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _interpreter(folder: Path, minor: int, answer: str = "cpython final 3.{}.5 True") -> Path:
    """A program that answers as such an interpreter would."""
    return _program(folder / f"python3.{minor}", f"echo {answer.format(minor)}")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with what a test puts into bin/ and pyenv/, and the interpreter that runs it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setattr(pythons, "ROOT", tmp_path)
    monkeypatch.setattr(pythons, "LOGS", tmp_path / "build")
    return tmp_path


def _found() -> list[tuple[str, Path]]:
    return [(one.release, one.path) for one in pythons.interpreters()]


def test_the_interpreter_that_runs_is_found() -> None:
    assert _found() == [(RELEASE, Path(sys.executable))]


def test_path_and_pyenv_are_searched_and_the_first_of_a_version_counts(machine: Path) -> None:
    first = _interpreter(machine / "bin", NEXT)
    _interpreter(machine / "pyenv" / "versions" / "a" / "bin", NEXT)
    second = _interpreter(machine / "pyenv" / "versions" / "b" / "bin", NEXT + 1)
    assert _found()[1:] == [(f"3.{NEXT}.5", first), (f"3.{NEXT + 1}.5", second)]


@pytest.mark.parametrize(
    "script",
    [
        "echo 'pyenv: command not found' >&2; exit 127",
        "exit 0",
        f"echo pypy final 3.{NEXT}.5 True",
        f"echo cpython beta 3.{NEXT}.0 True",
        "echo cpython final 3.10.1 True",
    ],
    ids=["broken shim", "silent", "another implementation", "unreleased", "too old"],
)
def test_what_is_no_cpython_from_3_11_on_is_passed_over(machine: Path, script: str) -> None:
    _program(machine / "bin" / f"python3.{NEXT}", script)
    assert len(_found()) == 1


def test_a_broken_shim_does_not_hide_the_interpreter_behind_it(machine: Path) -> None:
    _program(machine / "bin" / f"python3.{NEXT}", "exit 127")
    behind = _interpreter(machine / "pyenv" / "versions" / "a" / "bin", NEXT)
    assert _found()[1:] == [(f"3.{NEXT}.5", behind)]


def test_other_programs_of_a_python_are_no_interpreters(machine: Path) -> None:
    for name in (f"python3.{NEXT}-config", f"python3.{NEXT}t", "python3.10"):
        _program(machine / "bin" / name, f"echo cpython final 3.{NEXT}.5 True")
    assert len(_found()) == 1


def test_the_newest_other_one_can_make_environments(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pythons.py", "--other"])
    assert pythons.main() == 0
    assert capsys.readouterr().out.strip() == ""

    usable = _interpreter(machine / "bin", NEXT)
    _interpreter(machine / "bin", NEXT + 1, "cpython final 3.{}.5 False")
    assert pythons.main() == 0
    assert capsys.readouterr().out == f"{usable}\n"


def test_the_list_has_versions_and_paths(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _interpreter(machine / "bin", NEXT)
    monkeypatch.setattr(sys, "argv", ["pythons.py"])
    assert pythons.main() == 0
    assert capsys.readouterr().out == f"{RELEASE:8} {sys.executable}\n3.{NEXT}.5   {path}\n"


@pytest.mark.parametrize(
    ("fails", "summary"),
    [(False, "812 passed, 3 skipped"), (True, "1 failed, 811 passed, 3 skipped")],
)
def test_the_suite_gets_a_line_for_each_interpreter(
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    fails: bool,
    summary: str,
) -> None:
    _interpreter(machine / "bin", NEXT)
    _interpreter(machine / "bin", NEXT + 1, "cpython final 3.{}.5 False")
    monkeypatch.setenv("MAKEFLAGS", " -- PYTHON=python3")
    _program(
        machine / "bin" / "make",
        'echo "$@ $MAKEFLAGS."\n'
        f'case "$2" in *python3.{NEXT}) '
        f"echo '{summary} in 61.20s (0:01:01)'; exit {2 * fails};; esac\n"
        "echo '7 passed in 1.20s'",
    )
    monkeypatch.setattr(sys, "argv", ["pythons.py", "--test"])
    assert pythons.main() == fails
    this, other, skipped = capsys.readouterr().out.splitlines()
    assert this.split()[:2] == [RELEASE, "passed"]
    assert this.endswith(" s  7 passed")
    assert other.split()[:2] == [f"3.{NEXT}.5", "failed" if fails else "passed"]
    assert summary in other
    assert other.endswith(f"(see build/test-3.{NEXT}.log)") == fails
    assert skipped.split()[:2] == [f"3.{NEXT + 1}.5", "skipped"]
    log = (machine / "build" / f"test-3.{THIS}.log").read_text()
    assert log.startswith(f"test PYTHON={sys.executable} .\n")


def test_a_run_that_never_came_to_the_tests_says_so() -> None:
    assert pythons.counts("ERROR: no matching distribution\n") == "no tests were run"
    assert pythons.counts("= 2 passed, 1 warning in 0.03s =\n") == "2 passed, 1 warning"
