"""Checkpoints of training: one safetensors file, replaced atomically."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from densirank.errors import StorageError
from densirank.files import written_atomically
from densirank.training.callbacks import Report


@dataclass
class TrainingState:
    """The state of a run apart from model and optimiser."""

    iteration: int = 0
    seconds: float = 0.0
    best_validation: float | None = None
    best_iteration: int = 0
    best_parameters: dict[str, Tensor] | None = None
    validations_since_best: int = 0
    reports: list[Report] = field(default_factory=list)


class Checkpoint:
    """Saves a run periodically and restores it.

    ``run`` identifies the run (method, settings, seed, data). Restoring a checkpoint of another run
    raises an error that names the first difference.
    """

    def __init__(self, path: Path, run: Mapping[str, Any], every_seconds: float = 30.0) -> None:
        self.path = path
        self.run = dict(run)
        self.every_seconds = every_seconds
        self._last = time.monotonic()

    def exists(self) -> bool:
        return self.path.exists()

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.every_seconds

    def save(
        self, model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState
    ) -> None:
        """Write everything needed to resume, and replace the previous checkpoint."""
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for index, moments in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{index}.{name}": value for name, value in moments.items()}
        for name, value in (state.best_parameters or {}).items():
            tensors[f"best.{name}"] = value
        plain = {
            "iteration": state.iteration,
            "seconds": state.seconds,
            "best_validation": state.best_validation,
            "best_iteration": state.best_iteration,
            "validations_since_best": state.validations_since_best,
            "reports": [asdict(report) for report in state.reports],
        }
        metadata = {"run": json.dumps(self.run), "state": json.dumps(plain)}
        self._write({name: value.contiguous() for name, value in tensors.items()}, metadata)
        self._last = time.monotonic()

    def restore(self, model: nn.Module, optimiser: torch.optim.Optimizer) -> TrainingState:
        """Restore model and optimiser, and return the training state."""
        tensors, metadata = self._read()
        self._check_same_run(json.loads(metadata["run"]))
        device = next(model.parameters()).device
        tensors = {name: value.to(device) for name, value in tensors.items()}
        model.load_state_dict(_under("model.", tensors))
        structure = optimiser.state_dict()
        moments = _under("optimiser.", tensors)
        structure["state"] = {
            index: _under(f"{index}.", moments) for index in range(len(list(model.parameters())))
        }
        optimiser.load_state_dict(structure)
        plain = json.loads(metadata["state"])
        plain["reports"] = [Report(**report) for report in plain["reports"]]
        best = _under("best.", tensors)
        if best and best.keys() != model.state_dict().keys():
            raise StorageError(
                f"{self.path} was written by another version of densirank; delete it to start again"
            )
        return TrainingState(best_parameters=best or None, **plain)

    def remove(self) -> None:
        """Delete the checkpoint of a finished run."""
        self.path.unlink(missing_ok=True)

    def _write(self, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        from safetensors.torch import save_file

        with written_atomically(self.path) as temporary:
            save_file(tensors, temporary, metadata)

    def _read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise StorageError(
                f"{self.path} cannot be read as a checkpoint ({error}); delete it to start again"
            ) from error

    def _check_same_run(self, saved: Mapping[str, Any]) -> None:
        for key, value in self.run.items():
            if saved.get(key) != value:
                raise StorageError(
                    f"{self.path} belongs to another run: its {key} is {saved.get(key)!r}, "
                    f"not {value!r}; resume with the same settings, or delete it to start again"
                )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose name starts with ``prefix``, without it."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
