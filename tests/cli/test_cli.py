"""The command line as a person uses it: whole commands, what they print and how they end."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

from densirank import Interactions, Ranker, load
from densirank.cli.app import app, main
from densirank.data.synthetic import planted

SMALL = ["--set", "dim=8", "--set", "iterations=30", "--set", "users_per_batch=64"]


@dataclass(frozen=True)
class Done:
    """How a command ended and what it said."""

    returncode: int
    stdout: str
    stderr: str


def densirank(*words: object) -> Done:
    """Run a command as its entry point would, with its output going to pipes."""
    said, complained = io.StringIO(), io.StringIO()
    status = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["densirank", *map(str, words)])
        with redirect_stdout(said), redirect_stderr(complained):
            try:
                main()
            except SystemExit as end:
                status = int(end.code or 0)
    return Done(status, said.getvalue(), complained.getvalue())


def started(*words: object) -> subprocess.Popen[str]:
    """A command in a process of its own, to be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "densirank", *map(str, words)], stderr=subprocess.PIPE, text=True
    )


def complaint(done: Done) -> str:
    """The one sentence of a command that was refused."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ")
    return last


def write_text_form(path: Path, data: Interactions) -> Path:
    lines = [
        " ".join(map(str, [user, *data.items_of(user)]))
        for user in range(data.n_users)
        if data.user_counts[user]
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt, test.txt and a fitted model."""
    folder = tmp_path_factory.mktemp("cli")
    world = planted(120, 60, items_per_user=10, test_items_per_user=3, seed=5)
    write_text_form(folder / "train.txt", world.train)
    write_text_form(folder / "test.txt", world.test)
    done = densirank("fit", folder / "train.txt", "--out", folder / "model", *SMALL)
    assert done.returncode == 0, done.stderr
    return folder


def test_fit_says_what_it_read_and_did(folder: Path, tmp_path: Path) -> None:
    done = densirank("fit", folder / "train.txt", "--out", tmp_path / "m", "--valid", 0.2, *SMALL)
    assert done.returncode == 0
    assert re.search(r"120 users, 60 items, [\d,]+ pairs; wd-lgcn", done.stderr)
    assert re.search(r"30 iterations in .* s; best validation nDCG@20 0\.\d+ at it", done.stderr)
    assert sorted(p.suffix for p in (tmp_path / "m").iterdir()) == [
        ".json",
        ".jsonl",
        ".parquet",
        ".parquet",
        ".safetensors",
    ]


def test_evaluate_prints_json_for_machines(folder: Path) -> None:
    done = densirank("evaluate", folder / "model", folder / "test.txt", "--json")
    metrics = json.loads(done.stdout)
    assert metrics["users"] == 120
    assert 0 < metrics["ndcg@20"] < 1
    assert 0 < metrics["recall@20"] < 1
    at_5 = json.loads(
        densirank("evaluate", folder / "model", folder / "test.txt", "-k", 5, "--json").stdout
    )
    assert at_5["recall@5"] < metrics["recall@20"]
    table = densirank("evaluate", folder / "model", folder / "test.txt").stdout
    assert "recall@20" in table


def test_evaluate_keeps_its_figures_with_the_model_if_asked(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    before = densirank("recommend", model, "--user", 3, "--json").stdout
    line = ("evaluate", model, folder / "test.txt", "--json")
    assert densirank(*line).stdout == densirank(*line, "--keep").stdout
    kept = json.loads((model / "model.json").read_text())["metrics"]
    assert kept == json.loads(densirank(*line).stdout)
    assert densirank("recommend", model, "--user", 3, "--json").stdout == before


def test_recommend_for_some_for_all_and_to_parquet(folder: Path, tmp_path: Path) -> None:
    some = json.loads(
        densirank("recommend", folder / "model", "--user", 3, "--user", 5, "-k", 4, "--json").stdout
    )
    assert [row["user_id"] for row in some] == [3] * 4 + [5] * 4
    out = tmp_path / "recs.parquet"
    done = densirank("recommend", folder / "model", "--all", "-k", 4, "--out", out)
    assert "480 rows written" in done.stderr
    frame = pl.read_parquet(out)
    both = frame.filter(pl.col("user_id").is_in([3, 5]))
    assert both["item_id"].to_list() == [row["item_id"] for row in some]
    assert both["score"].to_list() == pytest.approx([row["score"] for row in some], rel=1e-5)
    shown = densirank("recommend", folder / "model", "--user", 3).stdout
    assert "probability" in shown
    assert "%" in shown


def test_similar_equals_the_library(folder: Path) -> None:
    done = densirank("similar", folder / "model", 7, "-k", 3, "--json")
    assert json.loads(done.stdout) == load(folder / "model").similar_items(7, 3).to_dicts()


def test_settings_come_from_the_config_file_and_set_wins(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "fit.toml"
    config.write_text('dim = 6\niterations = 3\nmax_norm = "none"\ncandidates = 20\n')
    out = tmp_path / "m"
    done = densirank(
        "fit", folder / "train.txt", "--out", out, "--config", config, "--set", "dim=5"
    )
    assert done.returncode == 0, done.stderr
    settings = load(out).settings_
    assert (settings.dim, settings.iterations) == (5, 3)
    assert (settings.max_norm, settings.candidates) == (None, 20)


def test_the_command_and_the_library_give_the_same_model(folder: Path) -> None:
    ranker = Ranker("wd-lgcn", device="cpu", dim=8, iterations=30, users_per_batch=64)
    ranker.fit(folder / "train.txt")
    assert ranker.recommend(k=5).equals(load(folder / "model", "cpu").recommend(k=5))


def test_a_file_may_validate(folder: Path, tmp_path: Path) -> None:
    done = densirank(
        "fit", folder / "train.txt", "--out", tmp_path / "m", "--valid", folder / "test.txt", *SMALL
    )
    assert "best validation" in done.stderr


def test_order_can_be_declared(tmp_path: Path) -> None:
    table = tmp_path / "log.csv"
    pairs = [(u, i) for u in range(10) for i in range(6)]
    table.write_text("person,thing\n" + "\n".join(f"{u},{i}" for u, i in pairs))
    columns = ["--user-column", "person", "--item-column", "thing"]
    words = ["fit", table, "--out", tmp_path / "m", "--valid", 0.2, "--valid-split", "last"]
    assert "order" in complaint(densirank(*words, *columns, *SMALL))
    assert not (tmp_path / "m" / "model.json").exists()
    done = densirank(*words, *columns, "--ordered", *SMALL)
    assert done.returncode == 0, done.stderr


def test_methods_and_doctor() -> None:
    rows = json.loads(densirank("methods", "--json").stdout)
    assert {"wd-lgcn", "pde-lgcn", "wd-mf", "pde-mf"} <= {row["method"] for row in rows}
    doctor = densirank("doctor")
    assert doctor.returncode == 0
    assert "learned a checkerboard" in doctor.stdout


def test_doctor_says_what_torchrun_needs_where_the_own_name_does_not_resolve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: str) -> str:
        raise socket.gaierror(socket.EAI_NONAME, name)

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert "torchrun needs --local-addr=127.0.0.1" in densirank("doctor").stdout


def test_every_command_explains_itself() -> None:
    runner = CliRunner()
    commands = ("fit", "tune", "evaluate", "recommend", "similar", "methods", "doctor")
    for words in ([], *([command] for command in commands)):
        result = runner.invoke(app, [*words, "--help"])
        assert result.exit_code == 0
        assert len(result.output.splitlines()) > 8


def test_killed_for_good_and_resumed_gives_the_same_model(folder: Path, tmp_path: Path) -> None:
    words = ["fit", folder / "train.txt", "--valid", 0.2, "--checkpoint-every", 0]
    words += ["--set", "iterations=300", "--set", "dim=8", "--set", "patience=1000"]
    out = tmp_path / "m"
    process = started(*words, "--out", out)
    while not (out / "checkpoint.safetensors").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert "training was not finished" in complaint(densirank("recommend", out, "--all"))

    other = densirank(*words, "--set", "iterations=60", "--out", out, "--resume")
    assert "belongs to another run" in complaint(other)
    resumed = densirank(*words, "--out", out, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert not (out / "checkpoint.safetensors").exists()
    densirank(*words, "--out", tmp_path / "whole")
    one, whole = load(out, "cpu").scorer_, load(tmp_path / "whole", "cpu").scorer_
    np.testing.assert_array_equal(one.user_vectors, whole.user_vectors)
    np.testing.assert_array_equal(one.item_vectors, whole.item_vectors)
    again = densirank(*words, "--out", out, "--resume")
    assert "nothing to resume" in again.stderr


def test_ctrl_c_saves_what_there_is(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    process = started("fit", folder / "train.txt", "--out", out, "--set", "iterations=1000000")
    while not (out / "training.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted after" in said
    assert load(out).recommend(0).height == 10
    assert (out / "checkpoint.safetensors").exists()


def test_a_diverging_run_stops_with_advice(folder: Path, tmp_path: Path) -> None:
    done = densirank(
        "fit", folder / "train.txt", "--out", tmp_path / "m", *SMALL,
        "--set", "learning_rate=1e20", "--set", "max_norm=none",
    )  # fmt: skip
    assert done.returncode == 1
    assert "no longer finite" in done.stderr
    assert not (tmp_path / "m" / "model.json").exists()


@pytest.mark.parametrize(
    ("content", "name", "sentence"),
    [
        ("", "train.txt", "train.txt is empty"),
        ("0 1 2\n1 x 3\n", "train.txt", "train.txt.*line 2"),
        ("0 1 2\n1\n", "train.txt", "train.txt.*line 2"),
        ("person,thing\n1,2\n", "train.csv", "train.csv.*person"),
        ("user,item\n1,2\n,3\n", "train.csv", "train.csv.*user"),
        ("0 1", "train.dat", r"train.dat"),
    ],
)
def test_bad_training_files_are_refused_and_nothing_is_written(
    tmp_path: Path, content: str, name: str, sentence: str
) -> None:
    (tmp_path / name).write_text(content)
    said = complaint(densirank("fit", tmp_path / name, "--out", tmp_path / "m"))
    assert re.search(sentence, said)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["fit", "{t}", "--out", "{d}", "--set", "dim"], "--set takes KEY=VALUE"),
        (["fit", "{t}", "--out", "{d}", "--set", "dim=many"], "dim cannot be 'many'"),
        (["fit", "{t}", "--out", "{d}", "--set", "depth=3"], "unknown setting 'depth'"),
        (["fit", "{t}", "--out", "{d}", "--method", "svd"], "no method 'svd'"),
        (["fit", "{t}", "--out", "{d}", "--valid", "1.5"], "between 0 and 1"),
        (["fit", "{t}", "--out", "{d}", "--valid", "nowhere.txt"], "nowhere.txt"),
        (["fit", "{t}", "--out", "{d}", "--config", "none.toml"], "none.toml cannot be read"),
        (["fit", "{t}", "--out", "{d}", "--set", "optimiser=magic"], "one of adam, whitened"),
        (["fit", "{t}", "--out", "{d}", "--set", "filter_kind=magic"], "mild, graph, ridge"),
        (["fit", "{t}", "--out", "{t}"], "is a file"),
        (["fit", "nowhere.txt", "--out", "{d}"], "nowhere.txt"),
        (["fit", "{m}", "--out", "{d}"], "is a folder"),
        (["tune", "{t}", "--out", "{t}", "--grid"], "a folder for the search was expected"),
        (["tune", "{t}", "--out", "{m}", "--grid"], "holds no search"),
        (["tune", "{t}", "--out", "{d}", "--space", "none.toml"], "none.toml cannot be read"),
        (["tune", "{t}", "--out", "{d}", "--set", "l2"], "--set takes KEY=VALUE"),
        (["tune", "{t}", "--out", "{d}", "--method", "popularity"], "no setting left to search"),
        (["tune", "nowhere.txt", "--out", "{d}"], "nowhere.txt"),
        (["evaluate", "{m}", "nowhere.txt"], "nowhere.txt"),
        (["evaluate", "nowhere", "{t}"], "there is no folder nowhere"),
        (["recommend", "{m}"], "pass exactly one of --user, --all"),
        (
            ["recommend", "{m}", "--user", "3", "--all"],
            "pass exactly one of --user, --all",
        ),
        (["recommend", "{m}", "--user", "nobody"], "does not know the user nobody"),
        (["recommend", "{m}", "--all", "--out", "no/such/place.parquet"], "no folder no/such"),
        (["recommend", "{m}", "--all", "--out", "{m}"], "is a folder; the name of a file"),
        (["similar", "{m}", "999"], "does not know the item 999"),
        (["similar", "{m}", "[/x]"], "does not know the item [/x]"),
        (["fit", "a[/x].csv", "--out", "{d}"], "there is no file a[/x].csv"),
    ],
)
def test_bad_requests_get_one_sentence(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"t": folder / "train.txt", "m": folder / "model", "d": tmp_path / "new"}
    said = complaint(densirank(*(word.format(**places) for word in words)))
    assert sentence in said
    assert not (tmp_path / "new" / "model.json").exists()


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["fit", "x", "--out", "y", "--valid-split", "first"], "--valid-split"),
        (["fit", "x", "--out", "y", "--device", "abacus"], "--device"),
        (["fit", "x", "--out", "y", "--precision", "quarter"], "--precision"),
        (["fit", "x", "--out", "y", "--format", "table"], "--format"),
        (["tune", "x", "--out", "y", "--valid-split", "first"], "--valid-split"),
        (["recommend", "x", "--all", "--unknown", "guess"], "--unknown"),
        (["recommend", "x", "--all", "--engine", "steam"], "--engine"),
        (["index", "x", "--kind", "tree"], "--kind"),
        (["export", "x", "--to", "y", "--format", "pickle"], "--format"),
    ],
)
def test_what_an_option_does_not_take_is_refused_by_its_name(words: list[str], option: str) -> None:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr


def test_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """Ids and names of files may look like the markup of the library that prints them."""
    log, model = tmp_path / "a[red].csv", tmp_path / "m[bold]"
    log.write_text("user,item\n[/a],[b]\n[/a],[red]x\n[c],:cat:\n[c],[b]\n[c],[i]y[/i]\n")
    words = ["--method", "wd-mf", "--set", "iterations=2", "--set", "dim=2"]
    assert "m[bold]" in densirank("fit", log, "--out", model, *words).stderr
    assert "[red]x" in densirank("recommend", model, "--user", "[c]").stdout
    assert "[i]y[/i]" in densirank("recommend", model, "--all").stdout
    assert ":cat:" in densirank("recommend", model, "--user", "[/a]").stdout
    lists = tmp_path / "l[*].parquet"
    assert densirank("recommend", model, "--all", "--out", lists).returncode == 0
    assert "[i]y[/i]" in pl.read_parquet(lists, glob=False)["item_id"].to_list()
    assert densirank("update", model, log, "--out", tmp_path / "u[i]").returncode == 0


def test_strangers_in_the_test_file_are_counted_not_fatal(folder: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.txt"
    test.write_text("0 1 2 999\n888 1\n")
    done = densirank("evaluate", folder / "model", test, "--json")
    assert done.returncode == 0
    metrics = json.loads(done.stdout)
    assert (metrics["users"], metrics["unknown_users"], metrics["unknown_items"]) == (1, 1, 1)
    assert "1 test users are unknown" in done.stderr


def test_a_public_set_is_found_by_name(tmp_path: Path) -> None:
    data = os.environ.get("DENSIRANK_DATA")
    if not (data and Path(data).is_dir()):
        pytest.skip("DENSIRANK_DATA names no folder with the public data sets")
    model = tmp_path / "gowalla"
    untrained = ("--method", "popularity", "--set", "filter_weight=20")
    done = densirank("fit", "gowalla", "--out", model, *untrained)
    assert done.returncode == 0, done.stderr
    metrics = json.loads(densirank("evaluate", model, "gowalla", "--json").stdout)
    assert metrics["users"] == 29_858
    assert metrics["ndcg@20"] > 0.10  # by the filter; popularity has .03


# --- what the data mean ---------------------------------------------------------------------------

LOG = "user_id,item_id,rating,timestamp\n" + "".join(
    f"{user},{item},{1 + (user + item) % 5},{100 * user + item}\n"
    for user in range(12)
    for item in range(user % 3, 8)
)
FAST = ["--method", "popularity"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            [],
            "Columns: user=user_id, item=item_id, time=timestamp, weight=none; rating not used. "
            "Order: known, by the timestamps. Validation: none.",
        ),
        (
            ["--no-ordered", "--valid", 0.2],
            "Order: not known (say --ordered if the rows of each user are in order of time). "
            "Validation: random items of each user.",
        ),
        (["--valid", 0.2], "by the timestamps. Validation: the last items of each user."),
        (["--valid", 0.2, "--valid-split", "random"], "Validation: random items of each user."),
        (["--valid", "log.csv"], "Validation: the items of log.csv."),
        (
            ["--timestamp-column", "", "--ordered"],
            "weight=none; rating, timestamp not used. Order: known, as said by --ordered.",
        ),
        (["--weight-column", "rating"], "weight=rating. Order"),
        (["--min-rating", 3], "weight=none, rating=rating. Order"),
        (
            ["--event-column", "rating", "--event-weights", "1=0,2=1,3=1,4=2,5=3"],
            "weight=by rating. Order",
        ),
    ],
)
def test_fit_says_what_the_data_were_taken_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[object], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text(LOG)
    done = densirank("fit", "log.csv", "--out", "m", *FAST, *options)
    assert done.returncode == 0, done.stderr
    assert said in done.stderr


def test_the_text_form_is_not_presumed_to_be_in_order(folder: Path, tmp_path: Path) -> None:
    words = [
        "fit",
        folder / "train.txt",
        "--out",
        tmp_path / "m",
        "--overwrite",
        *FAST,
        "--valid",
        0.2,
    ]
    done = densirank(*words)
    assert "time=none, weight=none. Order: not known" in done.stderr
    assert "Validation: random items of each user." in done.stderr
    assert not load(tmp_path / "m").interactions_.ordered
    assert "Validation: the last items" in densirank(*words, "--ordered").stderr
    assert load(tmp_path / "m").interactions_.ordered


def test_tune_and_update_say_it_as_well(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    said = "weight=none; rating not used. Order: known, by the timestamps. Validation: "
    fixed = ["--method", "wd-mf", "--set", "iterations=2", "--trials", 1]
    done = densirank("tune", log, "--out", tmp_path / "t", *fixed)
    assert f"{said}the last items of each user." in done.stderr
    assert densirank("fit", log, "--out", tmp_path / "m", *FAST).returncode == 0
    done = densirank("update", tmp_path / "m", log, "--out", tmp_path / "n")
    assert f"{said}none." in done.stderr
    assert "warning" not in done.stderr
    done = densirank(
        "update", tmp_path / "m", log, "--out", tmp_path / "n", "--overwrite", "--no-ordered"
    )
    assert "warning: the order of time is no longer known" in done.stderr
    rows = ["--timestamp-column", "", "--ordered"]
    done = densirank("update", tmp_path / "m", log, "--out", tmp_path / "n", "--overwrite", *rows)
    assert "warning: no timestamps are kept: the new interactions have none" in done.stderr
    assert load(tmp_path / "n").interactions_.ordered


def test_times_in_other_units_are_pointed_out_in_an_update(tmp_path: Path) -> None:
    seconds, dates = tmp_path / "seconds.csv", tmp_path / "dates.csv"
    seconds.write_text("user,item,time\n1,2,1700000000\n1,3,1700000001\n2,3,1700000002\n")
    dates.write_text("user,item,time\n1,4,2024-03-04\n")
    assert densirank("fit", seconds, "--out", tmp_path / "m", *FAST).returncode == 0
    for log, is_other in ((dates, True), (seconds, False)):
        done = densirank("update", tmp_path / "m", log, "--out", tmp_path / "n", "--overwrite")
        assert done.returncode == 0
        assert ("if they are in different units" in done.stderr) == is_other


def test_a_finished_model_of_other_data_is_nothing_to_resume(tmp_path: Path) -> None:
    log, words = tmp_path / "log.txt", ["--method", "wd-mf", "--set", "iterations=2", "--ordered"]
    log.write_text("0 1 2 3\n1 3 2\n")
    fit = ["fit", log, "--out", tmp_path / "m", *words]
    assert densirank(*fit).returncode == 0
    assert "nothing to resume" in densirank(*fit, "--resume").stderr
    log.write_text("0 3 2 1\n1 3 2\n")
    assert "finished model of other interactions, or of another order" in complaint(
        densirank(*fit, "--resume")
    )


def test_dates_are_read_as_said_by_every_command(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("user,item,date\n1,2,03/04/2024\n1,3,02/05/2024\n2,3,01/01/2024\n")
    fit = ["fit", log, "--out", tmp_path / "m", *FAST]
    assert "day and month or month and day" in complaint(densirank(*fit))
    form = ["--timestamp-format", "%d/%m/%Y"]
    assert densirank(*fit, *form).returncode == 0
    assert densirank("evaluate", tmp_path / "m", log, *form).returncode == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--event-weights", "view"], "--event-weights takes EVENT=WEIGHT"),
        (["--event-weights", "view=often"], "'view=often' is not of that form"),
        (["--event-weights", "a=1,a=2"], "names 'a' twice"),
        (["--event-weights", "a=1"], "(--event-column) and event_weights (--event-weights)"),
        (["--rating-column", "rating"], "needs min_rating (--min-rating)"),
    ],
)
def test_options_of_reading_are_checked(
    tmp_path: Path, options: list[object], sentence: str
) -> None:
    log = tmp_path / "log.csv"
    log.write_text(LOG)
    assert sentence in complaint(densirank("fit", log, "--out", tmp_path / "m", *options))


def test_options_that_a_public_set_does_not_take_are_refused(tmp_path: Path) -> None:
    done = densirank("fit", "gowalla", "--out", tmp_path / "m", "--min-rating", 3)
    assert "--min-rating cannot be used with the public set gowalla" in complaint(done)


def test_a_partition_says_what_it_used_and_a_fit_of_it_whether_an_order_is_known(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log.parquet"
    pl.read_csv(LOG.encode()).write_parquet(log)
    cut = tmp_path / "cut"
    done = densirank("partition", log, "--out", cut)
    assert "weight=none; rating not used. Order: known, by the timestamps." in done.stderr
    fit = ["fit", cut, "--out", tmp_path / "m", "--overwrite", *FAST]
    said = "Columns: user, item, time=yes, weight=none. Order: known, by the timestamps."
    assert said in densirank(*fit).stderr
    assert "Order: not known" in densirank(*fit, "--no-ordered").stderr
    assert not load(tmp_path / "m").interactions_.ordered
    assert "--min-rating cannot be used with the partition" in complaint(
        densirank(*fit, "--min-rating", 3)
    )
    assert "Order: not known" in densirank("partition", log, "--out", cut, "--no-ordered").stderr
    assert "Order: not known" in densirank(*fit).stderr
