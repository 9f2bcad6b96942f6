"""Ids, titles, paths and help texts are shown as they are, whatever they look like to Rich."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from densirank.cli.app import app, main

USERS = ("p[red]", "[/x]", ":smile:", "[bold]q[/bold]")
ITEMS = ("shirt[red]", "i[/x]", ":smile:", "j[link=x]", "\\[k]")
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def shown(*words: object, status: int = 0) -> str:
    """What a command prints."""
    out, err = io.StringIO(), io.StringIO()
    ended = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["densirank", *map(str, words)])
        patch.setenv("COLUMNS", "300")
        try:
            main()
        except SystemExit as end:
            ended = int(end.code or 0)
    assert ended == status, err.getvalue()
    return out.getvalue() + err.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder, a log and a model with names that look like markup."""
    folder = tmp_path_factory.mktemp("markup") / "a[red][/x]:smile:"
    folder.mkdir(parents=True)
    pairs = [(u, i) for n, u in enumerate(USERS) for m, i in enumerate(ITEMS) if (n + m) % 4]
    log = folder / "log[red].csv"
    log.write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u, i in pairs))
    model = folder / "m[/x]"
    small = ("--method", "wd-mf", "--set", "iterations=2", "--set", "dim=2")
    assert f"written to {model}." in shown("fit", log, "--out", model, *small)
    return folder


@pytest.mark.parametrize("user", USERS)
def test_ids_are_printed_as_they_are(folder: Path, user: str) -> None:
    model = folder / "m[/x]"
    listed = shown("recommend", model, "--user", user, "--no-filter-seen")
    assert all(text in listed for text in (user, *ITEMS))
    listed = shown("recommend", model, "--user", user, "--no-filter-seen", "--json")
    assert all(text.replace("\\", "\\\\") in listed for text in (user, *ITEMS))


def test_titles_are_printed_as_they_are(folder: Path) -> None:
    titles = folder / "titles[red].csv"
    titles.write_text("item_id,title\n" + "".join(f"{i},[red]A {i}[/x]\n" for i in ITEMS))
    listed = shown(
        "recommend", folder / "m[/x]", "--user", USERS[0], "--no-filter-seen", "--titles", titles
    )
    assert all(f"[red]A {item}[/x]" in listed for item in ITEMS)
    titles.write_text("item_id,name\n")
    assert f"{titles} has no column title" in shown(
        "recommend", folder / "m[/x]", "--all", "--titles", titles, status=2
    )


def test_every_command_prints_paths_and_unknown_ids_as_they_are(
    folder: Path, tmp_path: Path
) -> None:
    model, log, new = folder / "m[/x]", folder / "log[red].csv", tmp_path / "n[red]"
    missing = folder / "no[bold].csv"
    assert f"there is no file {missing}" in shown("fit", missing, "--out", new, status=2)
    assert f"there is no file {missing}" in shown("tune", missing, "--out", new, status=2)
    assert f"--config {new}/" in shown(
        "tune", log, "--out", new, "--trials", 1, "--method", "itemknn", "--valid", 0.3
    )
    updated = tmp_path / "u[/x]"
    assert f"written to {updated}." in shown("update", model, log, "--out", updated)
    assert f"there is no folder {missing}" in shown("update", missing, log, "--out", new, status=2)
    assert f"there is no file {missing}" in shown("evaluate", model, missing, status=2)
    assert f"there is no file {missing}" in shown("calibrate", model, missing, status=2)
    assert "the user [red]x" in shown("recommend", model, "--user", "[red]x", status=2)
    assert "unknown and ignored in exclude: [red]x" in shown(
        "recommend", model, "--all", "--exclude", "[red]x"
    )
    assert "the item [/red]" in shown("similar", model, "[/red]", status=2)
    assert "shirt[red]" in shown("similar", model, "i[/x]")
    assert f"there is no folder {missing}" in shown("index", missing, status=2)
    vectors = tmp_path / "v[red]"
    assert f"written to {vectors};" in shown("export", model, "--to", vectors)
    assert f"there is no folder {missing}" in shown("serve", missing, status=2)
    assert str(missing) in shown("partition", missing, "--out", tmp_path / "p[/x]", status=2)
    assert "[red]" in shown("methods", "[red]", status=2)
    assert "[red]" in shown("doctor", "[red]", status=2)
    assert "'[red]'" in shown("[red]", status=2)
    assert "--[red]" in shown("fit", "--[red]", status=2)


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_texts_keep_their_brackets(name: str | None) -> None:
    words = ["--help"] if name is None else [name, "--help"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "1000", "TERMINAL_WIDTH": "1000"})
    assert done.exit_code == 0
    page = " ".join(done.stdout.replace("│", " ").split())
    command = typer.main.get_command(app) if name is None else COMMANDS[name]
    texts = [(command.help or "").split("\f")[0]]
    texts += [getattr(parameter, "help", None) or "" for parameter in command.params]
    for text in texts:
        meant = text.replace("\\[", "[")
        assert Text.from_markup(text).plain == meant, f"write \\[ in {text!r}"
        for paragraph in meant.split("\n\n"):
            assert " ".join(paragraph.split()) in page


def test_what_is_not_installed_is_named_with_its_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("densirank.cli.calibrate.can_draw", lambda: False)
    said = shown("calibrate", folder, folder / "log[red].csv", "--figure", "f.png", status=2)
    assert "pip install 'densirank[plots]'" in said
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install 'densirank[serve]'" in shown("serve", folder / "m[/x]", status=2)
