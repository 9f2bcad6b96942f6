"""What is needed, in which order, and the command that makes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from densirank.errors import InputError
from paper.planning import Job, commands_for, jobs_for, missing
from paper.records import Records, RunRecord, SearchRecord

MakeRun = Callable[..., RunRecord]


def test_a_table_needs_a_choice_and_its_seeds_cheap_methods_first() -> None:
    jobs = jobs_for(["reference"], ["yelp2018", "gowalla"], ["als", "popularity"])
    assert jobs == [
        Job("choice", "gowalla", "popularity"),
        Job("run", "gowalla", "popularity", 0),
        Job("choice", "yelp2018", "popularity"),
        Job("run", "yelp2018", "popularity", 0),
        Job("choice", "gowalla", "als"),
        *(Job("run", "gowalla", "als", seed) for seed in (0, 1, 2)),
        Job("choice", "yelp2018", "als"),
        *(Job("run", "yelp2018", "als", seed) for seed in (0, 1, 2)),
    ]


def test_figures_come_after_runs_and_significance_needs_one_seed() -> None:
    jobs = jobs_for(
        ["figure-sensitivity", "figure-efficiency", "significance"], ["gowalla"], ["wd-lgcn"]
    )
    assert [(job.kind, job.seed) for job in jobs] == [
        *(("choice", 0), ("run", 0), ("curve", 0), ("sensitivity", 0))
    ]


def test_quick_work_has_one_seed() -> None:
    jobs = jobs_for(["table1"], ["gowalla"], ["wd-lgcn"], quick=True)
    assert [(job.kind, job.seed) for job in jobs] == [("choice", 0), ("run", 0)]


def test_methods_a_product_does_not_have() -> None:
    with pytest.raises(InputError, match="nothing in table1 is made with the methods als"):
        jobs_for(["table1"], ["gowalla"], ["als"])
    assert jobs_for(["table1", "reference"], ["gowalla"], ["als"])


def test_only_what_is_whole_counts_as_there(tmp_path: Path, make_run: MakeRun) -> None:
    records = Records(tmp_path)
    jobs = [
        Job("choice", "elsewhere", "wd-mf"),
        *(Job("run", "elsewhere", "wd-mf", s) for s in (0, 1)),
    ]
    run = make_run()
    begun = SearchRecord(
        **{name: getattr(run, name) for name in ("method", "dataset", "seed", "settings")},
        **{name: getattr(run, name) for name in ("train_fingerprint", "versions", "hardware")},
    )
    records.keep(begun)  # nothing chosen yet
    records.keep(run)  # without the metrics of its users
    records.keep(make_run(seed=1))
    assert missing(jobs, records) == jobs[:2]
    records.per_user_path("elsewhere", "wd-mf").touch()
    assert missing(jobs, records) == jobs[:1]


def test_the_command_for_what_is_missing() -> None:
    jobs = jobs_for(["table2"], ["gowalla", "yelp2018"], ["wd-mf", "pde-mf"])
    assert commands_for("table2", jobs[:-4], ["--records", "my records"]) == [
        "python -m paper table2 --run --datasets gowalla --methods wd-mf,pde-mf "
        "--records 'my records'",
        "python -m paper table2 --run --datasets yelp2018 --methods wd-mf --records 'my records'",
    ]
