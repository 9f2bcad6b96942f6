"""`make soak` reports what failed, and leaves no busy process behind."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import soak
from soak import Run, Tally, read_report, table

REPORT = """<testsuites><testsuite>
<testcase file="tests/test_a.py" name="test_good" time="1.5"/>
<testcase file="tests/test_a.py" name="test_bad" time="2"><failure/></testcase>
<testcase file="tests/test_a.py" name="test_bad" time="1"><error/></testcase>
<testcase classname="tests.test_b" name="test_skipped" time="0"><skipped/></testcase>
</testsuite></testsuites>"""
GOOD, BAD, SKIPPED = (
    "tests/test_a.py::test_good",
    "tests/test_a.py::test_bad",
    "tests.test_b::test_skipped",
)
TESTS = {GOOD: Tally(slowest=1.5), BAD: Tally(failures=1, slowest=2.0), SKIPPED: Tally(skips=1)}


def test_a_report_counts_a_test_once_however_often_it_failed(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    assert read_report(tmp_path / "report.xml") == TESTS
    assert read_report(tmp_path / "none.xml") == {}
    run = Run("quiet", 1, 1, 9.0, TESTS)
    assert (run.passed, run.failed, run.skipped, run.trouble) == (1, 1, 1, "")


@pytest.mark.parametrize(
    ("status", "tests", "trouble"),
    [
        (0, {GOOD: Tally()}, ""),
        (0, {}, "ended with status 0"),
        (1, {GOOD: Tally()}, "ended with status 1"),
        (-6, TESTS, "ended with status -6"),
        (None, TESTS, "took more than"),
    ],
)
def test_a_run_that_ended_badly_is_trouble(
    status: int | None, tests: dict[str, Tally], trouble: str
) -> None:
    said = Run("busy", 1, status, 9.0, tests).trouble
    assert said.startswith(trouble)
    assert bool(said) == bool(trouble)


def test_the_table_has_what_failed_first_and_then_the_slowest() -> None:
    slow = {f"tests/test_slow.py::test[{n}]": Tally(slowest=3.0 + n) for n in range(20)}
    runs = [Run("quiet", 7, 1, 9.0, TESTS | slow), Run("busy", 8, 0, 9.0, {BAD: Tally()})]
    lines = table(runs).splitlines()
    assert lines[1].split() == ["2", "1", "2.0", BAD]
    assert lines[2].split()[-1] == "tests/test_slow.py::test[19]"
    assert lines[2 + soak.SLOWEST] == ""
    assert [line.split() for line in lines[-2:]] == [
        ["quiet", "7", "21", "1", "1", "9"],
        ["busy", "8", "1", "0", "0", "9"],
    ]


def test_a_soak_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[str] = []
    results = iter([TESTS, {GOOD: Tally()}, {GOOD: Tally()}, {GOOD: Tally()}])

    def suite(load: str, seed: int, folder: Path, words: Sequence[str]) -> Run:
        if len(begun) == 1:
            begun.append("stopped")
            raise KeyboardInterrupt
        begun.append(load)
        tests = next(results)
        return Run(load, seed, int(tests is TESTS), 1.0, tests)

    monkeypatch.setattr(soak, "run_suite", suite)
    monkeypatch.setattr("soak.signal.signal", lambda *_: None)
    where = ["--runs", "2", "--out", str(tmp_path)]
    assert soak.main(where) == 130
    with pytest.raises(SystemExit):
        soak.main(where)
    assert "holds 1 runs: pass --resume" in capsys.readouterr().err
    assert soak.main([*where, "--resume"]) == 1  # the first run's failure counts
    assert begun == ["quiet", "stopped", "busy", "quiet", "busy"]
    assert len(list(tmp_path.glob("*.json"))) == 4


HOLDING = """
import sys, time
from soak import busy_processes
with busy_processes(2):
    print("busy", flush=True)
    time.sleep(600)
"""


def test_busy_processes_end_with_a_soak_that_is_killed() -> None:
    holding = subprocess.Popen([sys.executable, "-c", HOLDING], stdout=subprocess.PIPE, text=True)
    assert holding.stdout is not None
    assert holding.stdout.readline() == "busy\n"
    holding.kill()
    holding.communicate(timeout=60)  # ends when the last process closes its standard output
