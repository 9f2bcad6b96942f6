"""How much there is to choose from: the normaliser and the entropy of a softmax, in one pass."""

from __future__ import annotations

import torch
from torch import Tensor

LEAST = -200.0
"""A logit so far below the highest has no probability in single precision."""


def spread(logits: Tensor) -> tuple[Tensor, Tensor]:
    """(log Σ exp, entropy in nats) of each row; a row of nothing but -inf has -inf and 0.

    With s the logits less their peak and Z = Σ exp s, the entropy is log Z - Σ s exp(s) / Z.

    >>> normaliser, entropy = spread(torch.tensor([[0.0, 0.0, -torch.inf]]))
    >>> normaliser.exp().item(), entropy.exp().item()
    (2.0, 2.0)
    """
    peak = logits.amax(dim=1, keepdim=True).clamp(min=torch.finfo(logits.dtype).min)
    below = logits - peak
    weights = below.exp()
    total = weights.sum(dim=1)
    mean = torch.linalg.vecdot(weights, below.clamp_(min=LEAST)) / total
    entropy = (total.log() - mean).nan_to_num_(nan=0.0)
    return peak.squeeze(1) + total.log(), entropy
