"""index, export and recommend --all as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

from densirank import Ranker, load
from densirank.cli.app import app
from densirank.data.synthetic import planted
from densirank.errors import DensirankError


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search") / "model"
    world = planted(40, 3000, items_per_user=10, test_items_per_user=1, seed=2)
    Ranker("wd-mf", device="cpu", dim=8, iterations=10).fit(world.train).save(folder)
    return folder


def said(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("kind", ["hnsw", "clusters"])
def test_index_reports_and_recommend_uses_it(trained: Path, kind: str) -> None:
    if kind == "hnsw":
        pytest.importorskip("faiss")
    done = CliRunner().invoke(app, ["index", str(trained), "--kind", kind, "--json"])
    measured = json.loads(done.stdout)
    assert measured["kind"] == kind
    assert 0.5 < measured["recall"] <= 1
    assert measured["seconds"] > 0
    assert measured["mib"] > 0
    index = load(trained, "cpu").index_
    assert index is not None
    assert index.measured.recall == measured["recall"]
    rows = json.loads(said("recommend", trained, "--user", 3, "-k", 4, "--approximate", "--json"))
    assert [row["rank"] for row in rows] == [1, 2, 3, 4]
    assert all(row["probability"] is None for row in rows)
    assert "–" in said("recommend", trained, "--user", 3, "--approximate")
    assert "recall@20 against exact" in said("index", trained, "--kind", "clusters")


def test_everybody_goes_to_a_file_in_parts(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "recs.parquet"
    said("index", trained, "--kind", "clusters", "--recall", 1)
    for words in ([], ["--approximate"]):
        assert "200 rows written" in said(
            "recommend", trained, "--all", "-k", 5, "--out", out, *words
        )
        expected = load(trained, "cpu").recommend(k=5, approximate=bool(words))
        assert_frame_equal(pl.read_parquet(out), expected, rel_tol=1e-5, abs_tol=1e-6)
        assert [path.name for path in tmp_path.iterdir()] == ["recs.parquet"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["index", "nowhere"], "there is no folder nowhere"),
        (["export", "{m}", "--to", "{m}"], "holds no export; choose another folder"),
    ],
)
def test_bad_requests_get_one_sentence(
    trained: Path, tmp_path: Path, words: list[str], sentence: str
) -> None:
    places = {"m": trained, "d": tmp_path / "new"}
    with pytest.raises(DensirankError, match=sentence):
        CliRunner().invoke(app, [word.format(**places) for word in words], catch_exceptions=False)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("format", ["parquet", "numpy", "onnx"])
def test_export_says_what_it_wrote(trained: Path, tmp_path: Path, format: str) -> None:
    if format == "onnx":
        pytest.importorskip("onnx")
    to = tmp_path / "out"
    said("export", trained, "--to", to, "--format", format)
    described = json.loads((to / "export.json").read_text())
    assert set(described["files"]) | {"export.json"} == {path.name for path in to.iterdir()}
    assert (described["users"], described["items"], described["dim"]) == (40, 3000, 8)
    assert described["score"] == "user_vector · item_vector"
    said("export", trained, "--to", to, "--format", format)  # and again into the same folder
