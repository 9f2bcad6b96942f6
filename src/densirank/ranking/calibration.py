"""From scores to probabilities that mean something: p(i|u) ∝ popularity(i)^β · exp(f_u(i) / T).

A risk fixes the order of the scores better than their scale. A temperature T puts the scale right
(Guo et al. 2017), and the base density p0 ∝ popularity^β gives popular items what a risk with its
own sampling of candidates took from them, or the reverse. Lists stay ordered by f_u(i): calibration
says how probable an item is and changes no list, so that lists, their evaluation and an index of
the vectors agree, whether a model is calibrated or not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from densirank.scores import Scorer


@dataclass(frozen=True)
class Calibration:
    """The temperature T and the popularity exponent β of a density, and what they rest on.

    An item's popularity is 1 + the number of its users in training.
    """

    temperature: float = 1.0
    popularity_exponent: float = 0.0
    held_out_items: int = 0  # that the two were fitted to
    gain: float = 0.0  # of the mean log-likelihood of such an item over T = 1, β = 0, in nats

    def __post_init__(self) -> None:
        if not 0 < self.temperature < float("inf"):
            raise ValueError(f"a temperature is a number above 0, not {self.temperature}")


@dataclass(frozen=True)
class CalibratedScorer:
    """A scorer of logits: f_u(i) / T + β log popularity(i), whose softmax is the density."""

    scorer: Scorer
    calibration: Calibration
    item_counts: Tensor  # (items,) users of each item in training

    @cached_property
    def log_popularity(self) -> Tensor:
        """log(1 + users), (items,)."""
        return torch.log1p(self.item_counts.to(self.device, torch.float32))

    @property
    def n_users(self) -> int:
        return self.scorer.n_users

    @property
    def n_items(self) -> int:
        return self.scorer.n_items

    @property
    def device(self) -> torch.device:
        return self.scorer.device

    def scores(self, users: Tensor, out: Tensor | None = None) -> Tensor:
        scores = self.scorer.scores(users, out)
        if self.calibration.temperature != 1:
            scores /= self.calibration.temperature
        if self.calibration.popularity_exponent != 0:
            scores += self.calibration.popularity_exponent * self.log_popularity
        return scores

    def logits(self, scores: Tensor, items: Tensor | None = None) -> Tensor:
        """The logits of scores f of all items, or of these; the scores themselves if T = 1, β = 0.

        >>> calibration = Calibration(temperature=2.0, popularity_exponent=1.0)
        >>> counts, nobody = torch.tensor([0, 9]), torch.empty(0, 1)
        >>> from densirank.scores import VectorScorer
        >>> scorer = VectorScorer(nobody, torch.ones(2, 1))
        >>> density = CalibratedScorer(scorer, calibration, counts)
        >>> density.logits(torch.tensor([[4.0, 6.0]]))   # 4 / 2 and 6 / 2 + log 10
        tensor([[2.0000, 5.3026]])
        """
        logits = scores
        if self.calibration.temperature != 1:
            logits = logits / self.calibration.temperature
        if self.calibration.popularity_exponent != 0:
            popular = self.log_popularity if items is None else self.log_popularity[items]
            logits = logits + self.calibration.popularity_exponent * popular
        return logits
