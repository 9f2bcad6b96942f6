"""The numerical core runs on a machine that has torch, numpy and scipy and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"polars", "typer", "rich", "safetensors", "optuna", "matplotlib"}:
            raise ModuleNotFoundError(f"{name} is not on this machine", name=name)

sys.meta_path.insert(0, Blocked())
from pathlib import Path
import densirank
train = densirank.read(Path(sys.argv[1]))
ranker = densirank.Ranker("wd-lgcn", dim=4, iterations=3, validate_every=1, device="cpu")
ranker.fit(train, 0.5)
metrics = ranker.evaluate(densirank.read([(0, 4)]))
assert metrics["users"] == 1, metrics

settings = {"iterations": 3}
study = densirank.tune(train, "wd-mf", {"dim": [2, 4]}, grid=True, settings=settings, device="cpu")
assert len(study.trials) == 2, study

chosen = densirank.autofit(train, 0.01, device="cpu")
assert chosen.training_["automatic"]["attempts"], chosen.training_
"""


def test_read_fit_validate_evaluate_tune_and_choose_without_anything_else(tmp_path: Path) -> None:
    text = tmp_path / "train.txt"
    text.write_text("0 0 1 2\n1 1 2 3\n2 4 0\n")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(text)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
