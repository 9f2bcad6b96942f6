"""The path in a message can be copied, however long it is: it is never parted into lines."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from densirank.cli.app import app

SMALL = ["--method", "wd-mf", "--set", "dim=2", "--set", "iterations=2"]


def said(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stderr


@pytest.mark.parametrize("length", [1, 40, 80, 120])
def test_messages_do_not_break_paths(tmp_path: Path, length: int) -> None:
    folder = tmp_path / ("f" * length)
    folder.mkdir()
    log = folder / "log.csv"
    log.write_text("user,item\n1,1\n1,2\n2,1\n2,3\n")
    model, lists = folder / "model", folder / "lists.parquet"
    newer, vectors, parts = folder / "newer", folder / "vectors", folder / "parts"
    assert f"written to {model}." in said("fit", log, "--out", model, *SMALL)
    assert f"{model} holds" in said("fit", log, "--out", model, *SMALL, "--resume")
    assert f"written to {lists}" in said("recommend", model, "--all", "--out", lists)
    user = ["--user", "1", "--out", folder / "one.parquet"]
    assert f"written to {folder / 'one.parquet'}" in said("recommend", model, *user)
    assert f"written to {newer}." in said("update", model, log, "--out", newer)
    assert f"written to {vectors};" in said("export", model, "--to", vectors)
    pl.read_csv(log).write_parquet(folder / "log.parquet")
    written = said("partition", folder / "log.parquet", "--parts", 2, "--out", parts)
    assert f"written to {parts}" in written
