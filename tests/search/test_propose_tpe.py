from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from densirank import METHODS
from densirank.dimensions import Setting
from densirank.errors import InputError
from densirank.search import Range, Trial
from densirank.search.propose import run_trials, tpe
from densirank.search.space import space_from

pytest.importorskip("optuna")

SPACE = space_from(
    METHODS["wd-lgcn"],
    {
        "learning_rate": Range(1e-4, 1.0, log=True),
        "layers": Range(1, 9),
        "optimiser": ["adam", "whitened"],
    },
)
DEFAULTS: Setting = {"learning_rate": 0.5, "layers": 8, "optimiser": "whitened"}


def objective(setting: Setting) -> float:
    """Best at learning rate .003, 3 layers and Adam."""
    rate, layers = float(setting["learning_rate"]), float(setting["layers"])  # type: ignore[arg-type]
    distance = math.log10(rate / 0.003) ** 2 + ((layers - 3) / 3) ** 2
    return math.exp(-distance) / (1 if setting["optimiser"] == "adam" else 2)


def visits(judged: Any, seed: int, number: int, earlier: list[Trial] | None = None) -> list[Trial]:
    earlier = earlier or []
    propose = tpe(SPACE, DEFAULTS, seed)
    return earlier + list(run_trials(propose, judged(objective), earlier, number))


def test_it_finds_a_planted_optimum(judged: Any) -> None:
    trials = visits(judged, seed=1, number=50)
    best = max(trials, key=lambda trial: trial.ndcg)
    assert best.settings["optimiser"] == "adam"
    assert best.settings["layers"] == 3
    assert best.settings["learning_rate"] == pytest.approx(0.003, rel=0.5)
    late = sum(trial.ndcg for trial in trials[-20:])
    assert late > 1.5 * sum(trial.ndcg for trial in trials[:20])


def test_it_starts_with_the_defaults_and_stays_in_the_space(judged: Any) -> None:
    trials = visits(judged, seed=2, number=25)
    assert trials[0].settings == DEFAULTS
    for trial in trials:
        assert trial.settings == {key: SPACE[key].closest(v) for key, v in trial.settings.items()}
        assert 1e-4 <= float(trial.settings["learning_rate"]) <= 1
        assert trial.settings["layers"] in range(1, 10)


def test_the_seed_decides_and_going_on_proposes_what_was_due(judged: Any) -> None:
    whole = visits(judged, seed=3, number=18)
    assert visits(judged, seed=3, number=18) == whole
    assert visits(judged, seed=4, number=18) != whole
    for cut in (1, 7, 14):
        told = [Trial.from_json(trial.to_json()) for trial in whole[:cut]]
        assert visits(judged, seed=3, number=18, earlier=told) == whole


def test_pruned_and_diverged_trials_can_be_told() -> None:
    setting: Setting = {"learning_rate": 0.1, "layers": 2, "optimiser": "adam"}
    curve = ((0.25, 0.1), (0.5, 0.2))
    trials = [
        Trial(1, setting, "pruned", 0.2, 50, 50, 1.0, curve),
        Trial(2, setting | {"layers": 3}, "diverged", 0.0, None, 10, 1.0),
        *(Trial(n, setting | {"layers": n}, "finished", 0.3, 1, 1, 1.0) for n in range(4, 9)),
    ] * 2  # more than the random ones at the start
    proposed = tpe(SPACE, DEFAULTS, seed=0)(trials)
    assert proposed is not None
    assert proposed not in [trial.settings for trial in trials]


def test_nothing_is_proposed_twice_and_a_small_space_comes_to_an_end(judged: Any) -> None:
    space = space_from(METHODS["wd-lgcn"], {"layers": [1, 2, 3], "optimiser": ["adam", "whitened"]})
    propose = tpe(space, {"layers": 3, "optimiser": "adam"}, seed=0)
    trials = list(run_trials(propose, judged(lambda setting: setting["layers"]), [], 99))
    assert len(trials) == len({tuple(trial.settings.values()) for trial in trials}) == 6


def test_without_optuna_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(InputError, match=r"not installed: pip install 'densirank\[tune\]'.*--grid"):
        tpe(SPACE, DEFAULTS, 0)
