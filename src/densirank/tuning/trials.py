"""A trial, and the trials of a search together: what was tried, how well it did, what to fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from densirank.dimensions import Setting, Space
from densirank.errors import TrainingError
from densirank.methods import Method

Status = Literal["finished", "pruned", "diverged"]


@dataclass(frozen=True)
class Trial:
    """One fit with the settings that were proposed, and how well it ranked the held-out items."""

    number: int
    """Counted from 1."""
    settings: Setting
    status: Status
    ndcg: float
    """The validation nDCG@20 it is judged by: of a pruned trial its best so far, of a diverged
    one 0."""
    best_iteration: int | None
    """Where validation was best; None where nothing is iterated."""
    iterations: int | None
    """How many were made."""
    seconds: float
    curve: tuple[tuple[float, float], ...] = ()
    """(share of the schedule, validation nDCG@20) each time it was validated."""

    def best_until(self, share: float) -> float | None:
        """The best validation within this share of the schedule, if there was any."""
        return max((ndcg for at, ndcg in self.curve if at <= share), default=None)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "settings": self.settings,
            "status": self.status,
            "validation_ndcg@20": self.ndcg,
            "best_iteration": self.best_iteration,
            "iterations": self.iterations,
            "seconds": self.seconds,
            "curve": self.curve,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Trial:
        """The trial that :meth:`to_json` described; a KeyError, TypeError or ValueError if none."""
        if plain["status"] not in get_args(Status):
            raise ValueError(f"there is no status {plain['status']!r}")
        return cls(
            number=int(plain["number"]),
            settings=dict(plain["settings"]),
            status=cast(Status, plain["status"]),
            ndcg=float(plain["validation_ndcg@20"]),
            best_iteration=plain["best_iteration"],
            iterations=plain["iterations"],
            seconds=float(plain["seconds"]),
            curve=tuple((float(share), float(ndcg)) for share, ndcg in plain["curve"]),
        )


def best_of(trials: Iterable[Trial]) -> Trial | None:
    """The finished trial with the highest validation metric, the first among equals."""
    finished = (trial for trial in trials if trial.status == "finished")
    return max(finished, key=lambda trial: trial.ndcg, default=None)


@dataclass(frozen=True)
class Study:
    """What a search has found so far."""

    method: Method
    space: Space
    fixed: dict[str, Any]
    """The settings that were given and not searched."""
    trials: tuple[Trial, ...]
    interrupted: bool = False

    @property
    def best(self) -> Trial:
        """The finished trial that ranked the held-out items best."""
        best = best_of(self.trials)
        if best is None:
            raise TrainingError(
                f"none of {len(self.trials)} trials came to its end: lower the learning rates of "
                "the space, or let max_norm (norm clipping) be smaller"
            )
        return best

    @property
    def settings(self) -> dict[str, Any]:
        """What to give a :class:`densirank.Ranker` that is fitted to all of the data.

        Where the step size does not fall (``decay`` is 0), a shorter run is the beginning of a
        longer one, so ``iterations`` is where validation was best. Where it falls, it falls over
        ``iterations``: a run that is cut to the best iteration would be another run, with rates
        nobody tried. There the whole schedule stays, and its end is what was judged.
        """
        chosen = self.fixed | self.best.settings
        if self.method.risk is None:
            return chosen
        whole = self.method.settings(**chosen)
        best_iteration = self.best.best_iteration
        if whole.decay > 0 or best_iteration is None:
            return chosen | {"iterations": whole.iterations}
        return chosen | {"iterations": best_iteration}
