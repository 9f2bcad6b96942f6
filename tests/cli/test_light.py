"""Help texts and complaints about options are there at once: they load neither torch nor polars."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "polars", "numpy", "scipy")
SCRIPT = """
import sys
from densirank.cli.app import main
sys.argv[0] = "densirank"
try:
    main()
except SystemExit as end:
    print("status", end.code)
print("loaded", [name for name in {heavy!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["methods"], None),
        (["fit", "log.csv"], 2),  # without --out
        (["fit", "log.csv", "--out", "model", "--device", "abacus"], 2),
        (["recommend", "model"], 2),
        (["paint"], 2),
        *(
            ([command, "--help"], 0)
            for command in [
                "fit",
                "tune",
                "update",
                "evaluate",
                "calibrate",
                "recommend",
                "similar",
                "index",
                "export",
                "serve",
                "partition",
                "methods",
                "doctor",
            ]
        ),
    ],
)
def test_what_needs_no_numbers_loads_nothing_for_them(words: list[str], status: int | None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(heavy=HEAVY), *words], capture_output=True, text=True
    )
    assert done.stdout.endswith("loaded []\n"), done.stdout + done.stderr
    if status is not None:
        assert f"status {status}" in done.stdout


def test_the_package_loads_what_it_is_asked_for() -> None:
    script = """
import sys
import densirank
assert "torch" not in sys.modules
assert set(densirank.__all__) <= set(dir(densirank))
for name in densirank.__all__:
    assert getattr(densirank, name) is not None
try:
    densirank.nothing
except AttributeError as error:
    assert "no attribute 'nothing'" in str(error)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
