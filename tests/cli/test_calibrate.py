"""``densirank calibrate`` from a model and held-out rows to probabilities that were put right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from densirank import Ranker, load
from densirank.cli.app import app
from densirank.data.synthetic import planted
from densirank.errors import InputError

WORLD = planted(80, 40, items_per_user=8, test_items_per_user=3, seed=3)


def densirank(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


@pytest.fixture
def model(tmp_path: Path) -> Path:
    Ranker("popularity", device="cpu").fit(WORLD.train).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    rows = [f"{user},{item}" for user, item in WORLD.test.pairs()]
    path = tmp_path / "held_out.csv"
    path.write_text("\n".join(["user,item", *rows]) + "\n")
    return path


def test_the_calibration_is_kept_in_the_folder_and_the_table_shown(
    model: Path, held_out: Path
) -> None:
    before = load(model, "cpu")
    files = {path.name for path in model.iterdir()}
    done = densirank("calibrate", model, held_out, "--bins", 4)
    assert done.exit_code == 0, done.output
    after = load(model, "cpu")
    expected = before.calibrate(WORLD.test).calibration_
    assert expected is not None
    assert after.calibration_ == expected
    assert after.recommend(k=3).equals(before.recommend(k=3))
    assert {path.name for path in model.iterdir()} == files
    assert f"Temperature {expected.temperature:.4f}" in done.stderr
    assert "predicted" in done.stdout
    assert done.stdout.count("up to") == before.reliability(WORLD.test, 4).height


def test_a_picture_and_json_and_a_second_calibration_from_the_start(
    model: Path, held_out: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "reliability.png"
    words = ("calibrate", model, held_out, "--popularity", "--json", "--figure", picture)
    first, second = densirank(*words), densirank(*words)
    assert first.exit_code == 0, first.output
    assert first.stdout == second.stdout
    said = json.loads(first.stdout)
    assert said["calibration"]["popularity_exponent"] != 0
    assert sum(row["observed"] for row in said["reliability"]) == len(WORLD.test)
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_done_is_said_before_anything_is_changed(
    model: Path, held_out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = (model / "model.json").read_bytes()

    def refused(*words: object) -> str:
        done = densirank("calibrate", model, *words)
        assert isinstance(done.exception, InputError)
        return str(done.exception)

    assert "there is no folder" in refused(held_out, "--figure", tmp_path / "no" / "a.png")
    trained = tmp_path / "trained.csv"
    rows = [f"{user},{item}" for user, item in WORLD.train.pairs()]
    trained.write_text("\n".join(["user,item", *rows]) + "\n")
    assert "no held-out item can be predicted" in refused(trained)
    monkeypatch.setattr("densirank.cli.calibrate.can_draw", lambda: False)
    assert "needs matplotlib" in refused(held_out, "--figure", tmp_path / "a.png")
    assert (model / "model.json").read_bytes() == manifest
