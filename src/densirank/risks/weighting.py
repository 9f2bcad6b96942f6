"""What counts how much in a density risk, where not everything counts alike.

The paper's risk is a plain mean over users and over their positives, with a uniform base density.
The derivation asks for neither, so here is where data come in that it leaves out:

- *weights* of the data, such as play counts, weigh the positives in Ê₊: a user's sum to one, so
  that they say what counts how much to a person and not who counts how much;
- *recency* δ weighs the positives in Ê₊ by exp(δ · position), position going from 0 (the user's
  oldest item) to 1 (the newest): what comes next resembles what came last; a pair's weight and
  its recency are multiplied;
- *user exponent* γ weighs the users in E_u by n_u^γ;
- *base exponent* β makes p0(i) ∝ popularity^β, the density before anything is known of a person;
- *candidate correction* κ divides p0 by q(i)^κ, q being the chance that an item is a candidate:
  with κ = 1 a sum over the candidates estimates the sum over all items (importance weighting).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.data.recency import pair_weights
from densirank.dimensions import Range, Space
from densirank.errors import InputError
from densirank.settings import Number, Settings, TrainingSettings, Whole, setting


@dataclass(frozen=True)
class DensitySettings(TrainingSettings):
    """Density risks (PDE, WD, MLE): what makes them more general than the paper's."""

    searched: ClassVar[Space] = {  # the points are the grid of Togashi et al. 2021, Section 4.1
        "learning_rate": Range(
            0.01, 0.1, log=True, points=tuple(tenth / 100 for tenth in range(1, 11))
        ),
        "l2": Range(1e-3, 0.5, log=True, points=(0.01, 0.05, 0.1)),
    }

    recency: float = setting(
        0.0,
        Number(),
        "δ: a user's positives weigh exp(δ · position), from 0 (oldest) to 1 (newest).",
    )
    user_exponent: float = setting(
        0.0, Number(at_most=10), "γ: users weigh n_u^γ, n_u being how many items they have."
    )
    base_exponent: float = setting(
        0.0,
        Number(at_most=10),
        "β: the base density p0(i) ∝ popularity^β; 0: uniform, as in the paper.",
    )
    candidate_correction: float = setting(
        0.0,
        Number(at_most=10),
        "κ: p0 is divided by (the chance to be a candidate)^κ; 1: importance weighting.",
    )
    hard_candidates: int = setting(
        0,
        Whole(0),
        "Items similar to their own that each user of a batch adds to the candidates.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hard_candidates and self.candidates == "all":
            raise InputError("hard_candidates has no effect where candidates is 'all'")
        if self.hard_candidates and self.candidate_correction != 0:
            raise InputError(
                "candidate_correction cannot be combined with hard_candidates: their sampling "
                "probability is unknown"
            )


@dataclass(frozen=True)
class Weighting:
    """Weights of a data set's pairs, users and items; None: all alike."""

    pairs: Tensor | None = None  # (pairs,) a user's summing to one
    users: Tensor | None = None  # (users,) one on average over those with positives
    log_base: Tensor | None = None  # (items,) log p0 up to a constant

    @classmethod
    def of(
        cls,
        data: Interactions,
        settings: Settings,
        device: torch.device,
        user_counts: NDArray[np.int64] | None = None,
        item_counts: NDArray[np.int64] | None = None,
    ) -> Weighting:
        """The weights that the settings and the data ask for.

        Of data that are a part of something larger, the counts are those of the whole.
        """
        if not isinstance(settings, DensitySettings):
            return PLAIN
        everybody = data.user_counts if user_counts is None else user_counts
        popularity = data.item_counts if item_counts is None else item_counts
        return cls(
            _on(device, _pairs(data, settings.recency)),
            _on(device, _users(data.user_counts, everybody, settings.user_exponent)),
            _on(device, _log_base(everybody, popularity, settings)),
        )

    @classmethod
    def of_new_users(
        cls,
        histories: Interactions,
        popularity: NDArray[np.int64],
        settings: Settings,
        device: torch.device,
    ) -> Weighting:
        """The weights of people who come after training, each alone with all items."""
        if not isinstance(settings, DensitySettings):
            return PLAIN
        return cls(
            _on(device, _pairs(histories, settings.recency if histories.ordered else 0.0)),
            None,
            base_density(settings, popularity, device),
        )


def base_density(
    settings: Settings, popularity: NDArray[np.int64], device: torch.device
) -> Tensor | None:
    """log p0(i) = β log popularity(i), (items,), around zero; None where p0 is uniform.

    Training estimates the density p0 · exp f, so f alone is not the logit of a probability.
    """
    if not isinstance(settings, DensitySettings):
        return None
    return _on(device, _centred(settings.base_exponent * np.log(np.maximum(popularity, 1))))


PLAIN = Weighting()
"""The paper's: everything counts alike."""


def _pairs(data: Interactions, recency: float) -> NDArray[np.float64] | None:
    weights = pair_weights(data, recency)
    return None if weights is None else weights / np.repeat(data.user_counts, data.user_counts)


def _users(
    counts: NDArray[np.int64], everybody: NDArray[np.int64], exponent: float
) -> NDArray[np.float64] | None:
    if exponent == 0:
        return None
    weights = np.where(counts > 0, np.maximum(counts, 1.0) ** exponent, 0.0)
    mean: float = (everybody[everybody > 0].astype(np.float64) ** exponent).mean()
    return weights / mean


def _log_base(
    user_counts: NDArray[np.int64], item_counts: NDArray[np.int64], settings: DensitySettings
) -> NDArray[np.float64] | None:
    popularity = np.maximum(item_counts, 1)
    log_base = settings.base_exponent * np.log(popularity)
    if settings.candidate_correction != 0 and settings.candidates == "batch":
        active = int((user_counts > 0).sum())
        chance = _chance_in_batch(popularity, active, min(settings.users_per_batch, active))
        log_base = log_base - settings.candidate_correction * np.log(chance)
    return _centred(log_base)


def _centred(log_base: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Around zero, where exp is at ease; a uniform one is as good as none."""
    return log_base - log_base.mean() if np.ptp(log_base) > 0 else None


def _chance_in_batch(
    popularity: NDArray[np.int64], n_users: int, users_per_batch: int
) -> NDArray[np.float64]:
    """How likely one of an item's users is in a batch, 1 − C(U − n, B) / C(U, B)."""
    without = n_users - popularity
    log_none = gammaln(without + 1) - gammaln(n_users + 1)
    log_none += gammaln(n_users - users_per_batch + 1)
    log_none -= gammaln(np.maximum(without - users_per_batch, 0) + 1)
    chance: NDArray[np.float64] = -np.expm1(np.minimum(log_none, 0.0))
    return np.where(without < users_per_batch, 1.0, chance)


def _on(device: torch.device, values: NDArray[np.float64] | None) -> Tensor | None:
    return None if values is None else torch.from_numpy(values.astype(np.float32)).to(device)
