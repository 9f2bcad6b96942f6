"""What a risk is."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from densirank.risks.positives import Positives

Risk = Callable[[Tensor, Tensor, Positives], Tensor]
"""(user vectors, item vectors, positives) → the empirical risk, a differentiable scalar."""
