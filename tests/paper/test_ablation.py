"""Taking pieces away: each line is a plain fit without the piece, on validation data alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from densirank import METHODS, Interactions, Ranker
from densirank.data.splitting import validation_split
from paper import working
from paper.__main__ import app
from paper.ablation import PIECES, WHOLE, ablate, pieces_of
from paper.ablation_table import LABELS, ablated
from paper.choosing import beginning, choose
from paper.records import AblationRecord, Records, SearchRecord

GENERAL: dict[str, Any] = {
    "dim": 4,
    "iterations": 6,
    "users_per_batch": 50,
    "recency": 1.0,
    "filter_weight": 0.2,
    "filter_recency": 0.0,
    "base_exponent": 0.25,
}


@pytest.fixture
def choice(train: Interactions) -> SearchRecord:
    return choose(train, beginning(train, "tiny", "densirank", GENERAL, "cpu"), (), device="cpu")


def test_every_piece_is_made_of_settings_and_has_a_label() -> None:
    assert PIECES.keys() == LABELS.keys()
    for without in PIECES.values():
        METHODS["densirank"].settings(**without)


def test_only_what_is_there_can_be_taken_away(choice: SearchRecord) -> None:
    pieces = pieces_of(choice)
    assert pieces[0] == WHOLE
    assert "recency" in pieces
    assert "filter-recency" not in pieces
    assert "dimensions" in pieces  # they are not 64, so 64 is a difference


def test_without_a_piece_is_the_fit_anybody_would_make_of_the_rest(
    train: Interactions, choice: SearchRecord
) -> None:
    record, users, metrics = ablate(train, choice, "recency", (0, 3), device="cpu")
    part, held_out = validation_split(train, 0.2, "last")
    settings = {**choice.chosen_settings, "recency": 0.0}  # type: ignore[dict-item]
    for seed, ndcg in zip((0, 3), record.ndcgs, strict=True):
        plain = Ranker("densirank", seed=seed, device="cpu", **settings).fit(part)
        assert plain.evaluate(held_out)["ndcg@20"] == ndcg
    assert metrics["ndcg"].mean() == pytest.approx(np.mean(record.ndcgs))
    assert len(users) == len(metrics["ndcg"])


def test_the_table_compares_every_line_with_the_whole(
    tmp_path: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {piece: PIECES[piece] for piece in (WHOLE, "recency", "filter")}
    monkeypatch.setattr("paper.ablation.PIECES", few)
    line = ["ablation", "--quick", "--datasets", "tiny", "--device", "cpu"]
    line += ["--records", str(tmp_path), "--data-dir", str(data_dir)]
    made = CliRunner().invoke(app, [*line, "--run"])
    assert made.exit_code == 0, made.output
    assert "missing" not in made.stderr
    lines = ablated(Records(tmp_path / "quick"), "tiny", "densirank", quick=True)
    assert [one.record.without for one in lines] == list(few)
    whole = np.mean(lines[0].record.ndcgs)
    for one in lines[1:]:
        assert one.found is not None
        assert one.found.difference == pytest.approx(whole - np.mean(one.record.ndcgs), abs=1e-6)
        assert LABELS[one.record.without] in made.stdout

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("something was run")

    monkeypatch.setattr(working, "ablate", never)
    again = CliRunner().invoke(app, [*line, "--run"])
    assert (again.exit_code, again.stdout) == (0, made.stdout)


def test_a_search_that_goes_on_has_nothing_to_take_pieces_from(
    choice: SearchRecord, tmp_path: Path
) -> None:
    records = Records(tmp_path)
    records.keep(replace(choice, chosen=None))
    assert ablated(records, "tiny", "densirank") == []
    with pytest.raises(ValueError, match="not chosen yet"):
        pieces_of(replace(choice, chosen=None))


def test_a_record_without_figures_is_damaged(make_run: Callable[..., Any], tmp_path: Path) -> None:
    run = make_run()
    record = AblationRecord(
        **{name: getattr(run, name) for name in ("method", "dataset", "seed", "settings")},
        **{name: getattr(run, name) for name in ("train_fingerprint", "versions", "hardware")},
        without="filter",
        ndcgs=[],
        seconds=1.0,
    )
    assert record.fault() == "it has no figure"
    assert record.name == "wd-mf-without-filter"
