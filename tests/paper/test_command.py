"""``python -m paper`` as a person uses it, on a data set that takes no time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from densirank.data.datasets import PUBLIC_SETS, load_public
from densirank.errors import InputError, TrainingError
from densirank.ranker import Ranker
from paper import working
from paper.__main__ import app
from paper.records import Records, SearchRecord

BOTH = ("--methods", "popularity,wd-mf")
Paper = Callable[..., Result]


@pytest.fixture
def paper(tmp_path: Path, data_dir: Path) -> Paper:
    """Calls the command with the tiny data set."""

    def call(*words: object) -> Result:
        where = ["--records", tmp_path / "records", "--data-dir", data_dir, "--device", "cpu"]
        line = [*words, "--datasets", "tiny", *where]
        return CliRunner().invoke(app, list(map(str, line)))

    return call


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "records" / "quick")


def files(records: Records) -> list[str]:
    found = (path for path in records.folder.rglob("*") if path.is_file())
    return sorted(str(path.relative_to(records.folder)) for path in found)


FORMS = ("json", "md")
CHOICES = ["choices/tiny/popularity.json", "choices/tiny/wd-mf.json"]
RUNS = [
    f"runs/tiny/{method}-seed0.{suffix}"
    for method in ("popularity", "wd-mf")
    for suffix in ("json", "parquet")
]


def test_what_was_run_is_shown_again_without_running(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = paper("all", "--quick", "--run", *BOTH)
    assert made.exit_code == 0, made.output
    assert "missing" not in made.stderr
    assert files(records) == CHOICES + RUNS

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("something was run")

    monkeypatch.setattr(working, "load_public", never)
    again = paper("all", "--quick", "--run", *BOTH)
    shown = paper("all", "--quick", *BOTH)
    assert (again.exit_code, shown.exit_code) == (0, 0)
    assert shown.stdout == again.stdout == made.stdout
    assert shown.stdout.count("1 of 1") == 2
    for method in ("popularity", "wd-mf"):
        (run,) = records.runs("tiny", method)
        assert f"{run.metrics['ndcg@20']:.4f}".removeprefix("0") in shown.stdout


def test_what_is_missing_is_said_with_the_command_that_makes_it(paper: Paper) -> None:
    said = paper("table2", "--quick", "--methods", "wd-mf")
    assert said.exit_code == 0
    assert "2 records are missing (1 of kind choice, 1 of kind run)" in said.stderr
    (line,) = (text for text in said.stderr.splitlines() if "python -m paper" in text)
    made = CliRunner().invoke(app, line.split()[3:])
    assert made.exit_code == 0, made.output
    assert "missing" not in made.stderr
    assert "missing" not in paper("table2", "--quick", "--methods", "wd-mf").stderr


def test_choosing_never_asks_for_the_test_part(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, list[str]]] = []

    def without_test(name: str, part: Any, folder: Path | None) -> Any:
        asked.append((part, files(records)))
        if part == "test":
            raise InputError("the test part was asked for")
        return load_public(name, part, folder)

    monkeypatch.setattr(working, "load_public", without_test)
    done = paper("all", "--quick", "--run", *BOTH)
    assert done.exit_code == 1
    assert "the test part was asked for" in done.stderr
    assert files(records) == CHOICES
    for method in ("popularity", "wd-mf"):
        choice = records.find(SearchRecord, "tiny", method)
        assert choice is not None
        assert choice.chosen is not None
    first_ask = next(there for part, there in asked if part == "test")
    assert first_ask[:1] == CHOICES[:1]  # the choice was stored by then


def test_json_and_files_say_what_the_table_says(
    paper: Paper, records: Records, tmp_path: Path
) -> None:
    paper("reference", "--quick", "--run", "--methods", "popularity")
    done = paper("reference", "--quick", "--methods", "popularity", "--json", "--out", tmp_path)
    (line,) = json.loads(done.stdout)["reference"]
    (run,) = records.runs("tiny", "popularity")
    assert line["ndcg@20"] == {"mean": run.metrics["ndcg@20"], "sd": None}
    assert json.loads((tmp_path / "reference.json").read_text()) == [line]
    markdown = (tmp_path / "reference.md").read_text()
    assert "| Popularity |" in markdown
    assert "no results" in markdown  # they are quick runs


def test_no_time_starts_nothing_and_says_what_is_left(paper: Paper, records: Records) -> None:
    done = paper("table2", "--quick", "--run", "--minutes", 0, "--methods", "wd-mf")
    assert done.exit_code == 0
    assert "2 records are missing" in done.stderr
    assert files(records) == []


def test_time_that_runs_out_keeps_the_trial_that_was_made(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = chain([0.0, 0.0], repeat(100.0))
    own_time = SimpleNamespace(monotonic=lambda: next(clock))  # other threads keep theirs
    for module in ("__main__", "working"):
        monkeypatch.setattr(f"paper.{module}.time", own_time)
    done = paper("table2", "--quick", "--run", "--minutes", 1, "--methods", "wd-mf")
    assert done.exit_code == 0, done.output
    choice = records.find(SearchRecord, "tiny", "wd-mf")
    assert choice is not None
    assert (len(choice.trials), choice.chosen) == (1, None)


def test_an_interruption_keeps_what_is_finished(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_fit = Ranker.fit

    def interrupted(self: Ranker, *arguments: Any, **options: Any) -> Ranker:
        whole_fit(self, *arguments, **options)
        if self.method == "wd-mf":
            self.training_["interrupted"] = True
        return self

    monkeypatch.setattr(Ranker, "fit", interrupted)
    done = paper("all", "--quick", "--run", *BOTH)
    assert done.exit_code == 130
    assert "the same command goes on" in done.stderr
    assert files(records) == [CHOICES[0], *RUNS[:2]]


def test_an_interruption_between_two_fits_ends_the_work_too(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_fit = Ranker.fit

    def interrupted(self: Ranker, *arguments: Any, **options: Any) -> Ranker:
        signal.raise_signal(signal.SIGINT)
        return whole_fit(self, *arguments, **options)

    monkeypatch.setattr(Ranker, "fit", interrupted)
    assert paper("all", "--quick", "--run", *BOTH).exit_code == 130
    assert files(records) == CHOICES[:1]  # with the trial that was made


def test_what_fails_does_not_hold_up_the_rest(
    paper: Paper, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_fit = Ranker.fit

    def failing(self: Ranker, *arguments: Any, **options: Any) -> Ranker:
        if self.method == "popularity":
            raise TrainingError("it does not work")
        return whole_fit(self, *arguments, **options)

    monkeypatch.setattr(Ranker, "fit", failing)
    done = paper("all", "--quick", "--run", *BOTH)
    assert done.exit_code == 1
    assert done.stderr.count("no setting of popularity works: training diverged") == 1
    assert RUNS[2] in files(records)
    assert RUNS[0] not in files(records)


def test_a_data_set_that_is_not_there_is_said_once(
    paper: Paper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DENSIRANK_DATA", raising=False)
    monkeypatch.setitem(PUBLIC_SETS, "elsewhere", PUBLIC_SETS["tiny"])
    done = paper("all", "--quick", "--run", *BOTH, "--datasets", "elsewhere")
    assert done.exit_code == 1
    assert done.stderr.count("elsewhere cannot be downloaded") == 1
    assert done.stdout.count("1 of 1") == 2  # the tiny set's


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["table3"], "there is no 'table3'; there are table1, table2"),
        (["table1", "--methods", "wd-lgcn,magic"], "there is no method 'magic' here"),
        (["table1", "--datasets", "movielens"], "there is no data set 'movielens' here"),
        (["table1", "--methods", "popularity"], "nothing in table1 is made with"),
    ],
)
def test_names_that_are_not_there(paper: Paper, words: list[str], said: str) -> None:
    done = paper(*words)
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception)


WITHOUT_POLARS = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "polars":
            raise ModuleNotFoundError(f"{name} is not on this machine", name=name)

sys.meta_path.insert(0, Blocked())
from densirank.data.datasets import PUBLIC_SETS, PublicPart, PublicSet
users, items, train, test = map(int, sys.argv[1:5])
PUBLIC_SETS["tiny"] = PublicSet(users, items, PublicPart(train), PublicPart(test))
sys.argv[1:5] = []
from densirank.cli.printing import run
from paper.__main__ import app
run(app)
"""


def test_all_of_it_runs_where_there_is_no_polars(
    tmp_path: Path, data_dir: Path, records: Records
) -> None:
    known = PUBLIC_SETS["tiny"]
    counts = [known.users, known.items, known.train.pairs, known.test.pairs]
    words = ["all", "--datasets", "tiny", "--methods", "popularity,wd-lgcn,pde-lgcn"]
    where = ["--records", tmp_path / "records", "--data-dir", data_dir, "--device", "cpu"]
    line = [*counts, *words, "--quick", "--run", *where, "--out", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_POLARS, *map(str, line)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "WD-LGCN − PDE-LGCN" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "ablation.json",
        "adversarial.json",
        "best.json",  # none of its methods was asked for
        *(f"figure-efficiency.{suffix}" for suffix in ("json", "png", "svg")),
        *(f"figure-sensitivity.{suffix}" for suffix in ("json", "png", "svg")),
        *(f"{table}.{suffix}" for table in ("reference", "significance") for suffix in FORMS),
        *(f"{table}.{suffix}" for table in ("table1", "table2") for suffix in FORMS),
    ]
    assert (tmp_path / "out" / "figure-efficiency.png").read_bytes().startswith(b"\x89PNG")
    assert sorted({path.split("/")[0] for path in files(records)}) == [
        *("choices", "curves", "runs", "sensitivity")
    ]
    series = json.loads((tmp_path / "out" / "figure-sensitivity.json").read_text())
    assert [one["method"] for one in series] == ["pde-lgcn", "wd-lgcn"]
    assert {norm for norm, _ in series[0]["points"]} >= {2.0, 4.0, None}


def test_the_game_is_played_once_and_shown_again(paper: Paper, records: Records) -> None:
    assert "no records to draw it from" in paper("adversarial", "--quick").stderr
    played = paper("adversarial", "--quick", "--run")
    assert played.exit_code == 0, played.output
    assert "more steps of the generator alone" in played.stdout
    assert files(records) == ["adversarial.json"]
    assert paper("adversarial", "--quick").stdout == played.stdout
