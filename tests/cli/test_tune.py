"""``densirank tune`` from a file to the model that is fitted with what it found."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from densirank import METHODS, load
from densirank.cli.app import app
from densirank.cli.tune import SearchBar
from densirank.data.synthetic import planted
from densirank.errors import StorageError
from densirank.search import Choices, Study, Trial
from densirank.search import tune as search
from densirank.training.callbacks import Report

SMALL = ["--set", "dim=8", "--set", "iterations=10", "--set", "users_per_batch=64"]
COLUMNS = ["--user-column", "person", "--item-column", "thing", "--timestamp-column", "when"]


def densirank(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CSV of clicks under names nobody could guess."""
    data = planted(80, 50, items_per_user=8, test_items_per_user=1, seed=3).train
    lines = [f"p{u},t{data.items[at]},{at}" for at, u in enumerate(data.users)]
    path = tmp_path_factory.mktemp("tune") / "clicks.csv"
    path.write_text("\n".join(["person,thing,when", *lines]) + "\n")
    return path


def test_three_trials_then_a_fit_with_the_best(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "search"
    done = densirank("tune", log, "--out", out, "--trials", 3, "--device", "cpu", *SMALL, *COLUMNS)
    assert done.exit_code == 0, done.output
    assert "80 users, 50 items" in done.stderr
    for number in (1, 2, 3):
        assert f"trial {number}: nDCG@20 0." in done.stderr
    assert "Best of 3 trials (0 stopped early)" in done.stderr
    assert "max_norm" in done.stdout
    assert sorted(path.name for path in out.iterdir()) == [
        "best.toml",
        "search.json",
        "trials.jsonl",
        "trials.png",
    ]
    trials = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    best = max(trials, key=lambda trial: trial["validation_ndcg@20"])

    model = tmp_path / "model"
    fitted = densirank("fit", log, "--config", out / "best.toml", "--out", model, *COLUMNS)
    assert fitted.exit_code == 0, fitted.output
    settings = load(model, "cpu").settings_
    assert {key: getattr(settings, key) for key in best["settings"]} == best["settings"]
    assert (settings.dim, settings.iterations) == (8, 10)


def test_json_for_machines_and_a_space_from_a_file(log: Path, tmp_path: Path) -> None:
    space = tmp_path / "space.toml"
    space.write_text('max_norm = [2, 4, "none"]\nl2 = {low = 0.01, high = 0.1, log = true}\n')
    words = ["tune", log, "--out", tmp_path / "s", "--space", space, "--json", *SMALL, *COLUMNS]
    found = json.loads(densirank(*words, "--grid", "--trials", 4).stdout)
    assert len(found["trials"]) == 4
    assert all(set(trial["settings"]) == {"max_norm", "l2"} for trial in found["trials"])
    assert found["best"] in found["trials"]
    assert found["settings"].items() >= found["best"]["settings"].items()
    assert found["settings"]["iterations"] == 10

    resumed = densirank(*words, "--grid", "--trials", 4, "--resume")
    assert json.loads(resumed.stdout) == found
    other = densirank(*words, "--grid", "--trials", 4, "--resume", "--seed", 1)
    assert isinstance(other.exception, StorageError)
    assert "its seed is 0, not 1" in str(other.exception)


@pytest.mark.parametrize("finished", [0, 1])
def test_ctrl_c_keeps_what_there_is_and_exits_as_shells_expect(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int
) -> None:
    words = ["tune", log, "--out", tmp_path, "--grid", "--trials", 2, *SMALL, *COLUMNS]
    words += ["--set", "validate_every=2"]
    done_trials: list[object] = []

    def press(bar: SearchBar, report: Report) -> None:
        if len(done_trials) == finished:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(SearchBar, "report", press)
        patch.setattr(SearchBar, "trial", lambda bar, trials: done_trials.append(trials))
        cut = densirank(*words)
    assert cut.exit_code == 130
    assert f"Interrupted: what is finished ({finished}) is kept" in cut.stderr
    assert (tmp_path / "best.toml").exists() == (finished > 0)
    resumed = densirank(*words, "--resume")
    assert resumed.exit_code == 0
    assert resumed.stderr.count("trial ") == 2 - finished


def test_without_matplotlib_there_is_no_picture_but_a_sentence(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("densirank.cli.tune.can_draw", lambda: False)
    words = ["--grid", "--trials", 1, *SMALL, *COLUMNS]
    done = densirank("tune", log, "--out", tmp_path / "s", *words)
    assert done.exit_code == 0
    assert "matplotlib is not installed" in done.stderr
    assert not (tmp_path / "s" / "trials.png").exists()


@pytest.mark.parametrize(("end", "told"), [(0.2, True), (0.3, False)])
def test_a_peak_before_the_end_of_a_falling_schedule_is_told(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float, told: bool
) -> None:
    trial = Trial(1, {"l2": 0.1}, "finished", end, 5, 10, 1.0, ((0.5, 0.3), (1.0, end)))
    study = Study(METHODS["wd-lgcn"], {"l2": Choices((0.1,))}, {}, (trial,))
    monkeypatch.setattr(search, "tune", lambda *words, **options: study)
    done = densirank("tune", log, "--out", tmp_path, *COLUMNS)
    assert ("It had 0.3000 at iteration 5 of 10" in done.stderr) == told
