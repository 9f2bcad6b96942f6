"""``densirank fit`` that chooses for itself, as people type it."""

from __future__ import annotations

import re
import time
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from densirank import load
from densirank.cli.app import app
from densirank.cli.fit import check_automatic
from densirank.data.synthetic import planted
from densirank.errors import InputError
from densirank.world import World


def _fit(*words: object) -> Result:
    return CliRunner().invoke(app, ["fit", *map(str, words), "--device", "cpu"])


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A log of people of different tastes, their items in order of time."""
    log = planted(80, 50, rank=4, items_per_user=10, concentration=2.0, seed=3).train
    rows = [f"{u},{i},{n}" for n, (u, i) in enumerate(log.pairs())]
    path = tmp_path / "log.csv"
    path.write_text("user,item,time\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture
def in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = count()
    monkeypatch.setattr(time, "perf_counter", lambda: 0.001 * next(looks))


@pytest.mark.usefixtures("in_no_time")
def test_fit_without_options_chooses_and_says_what(table: Path, tmp_path: Path) -> None:
    done = _fit(table, "--out", tmp_path / "model", "--budget", "0.1s")
    assert done.exit_code == 0, done.output
    assert "80 users, 50 items" in done.stderr
    assert "choosing within 0.1 s" in done.stderr
    assert len(re.findall(r"^attempt \d+: nDCG@20 0\.\d{4}", done.stderr, re.MULTILINE)) >= 3
    record = load(tmp_path / "model", "cpu").training_["automatic"]
    best = record["attempts"][record["chosen"]]
    chosen = f"{best['method']} with the item filter, nDCG@20 {best['validation_ndcg@20']:.4f}"
    assert f"Best of {len(record['attempts'])} attempts: {chosen} on the held-out" in done.stderr


@pytest.mark.usefixtures("in_no_time")
def test_a_share_or_a_file_may_be_what_it_chooses_by(table: Path, tmp_path: Path) -> None:
    by_share = _fit(table, "--out", tmp_path / "a", "--budget", ".02", "--valid", "0.4")
    by_file = _fit(table, "--out", tmp_path / "b", "--budget", ".02", "--valid", table)
    assert (by_share.exit_code, by_file.exit_code) == (0, 0)
    assert "Best of" in by_share.stderr
    assert "nDCG@20 0.0000" in by_file.stderr  # it has been trained on: nothing is left to find


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget", "soon"], "a budget is a time above 0"),
        (["--budget", "10s", "--method", "wd-lgcn"], "--budget cannot be combined with"),
        (["--budget", "10s", "--set", "dim=8"], "--budget cannot be combined with"),
        (["--resume"], "cannot be resumed"),
        (["--valid", "1.5"], "between 0 and 1"),
    ],
)
def test_what_does_not_go_together_is_refused(
    table: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    done = _fit(table, "--out", tmp_path / "model", *words)
    assert isinstance(done.exception, InputError)
    assert sentence in str(done.exception)
    assert not (tmp_path / "model").exists()


def test_processes_that_train_together_have_to_be_told_what() -> None:
    with pytest.raises(InputError, match="say --method"):
        check_automatic(World(size=2, backend="gloo"), resume=False)


def test_settings_alone_are_for_the_usual_method(table: Path, tmp_path: Path) -> None:
    done = _fit(table, "--out", tmp_path / "model", "--set", "iterations=2", "--set", "dim=4")
    assert done.exit_code == 0, done.output
    model = load(tmp_path / "model", "cpu")
    assert model.method == "wd-lgcn"
    assert "automatic" not in model.training_
