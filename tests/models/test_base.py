from __future__ import annotations

import pytest
import torch

from densirank.models.base import dropped


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_share_is_set_to_zero_and_the_rest_makes_up_for_it(share: float) -> None:
    values = torch.linspace(1, 2, 40_000, dtype=torch.float64)
    result = dropped(values, share, torch.Generator().manual_seed(0))
    kept = result != 0
    torch.testing.assert_close(result[kept], values[kept] / (1 - share))
    deviation = (share * (1 - share) / len(values)) ** 0.5
    assert abs(float((~kept).double().mean()) - share) < 4 * deviation
    size = float(values.square().mean().sqrt())
    assert abs(float((result - values).mean())) < 4 * size * deviation / (1 - share)


def test_nothing_is_dropped_without_chance_or_share() -> None:
    values = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    assert torch.equal(dropped(values, 0.5, None), values)
    assert torch.equal(dropped(values, 0.0, torch.Generator()), values)


def test_what_is_dropped_depends_on_the_seed_alone() -> None:
    values = torch.ones(50, 3)
    first, again, other = (
        dropped(values, 0.5, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_only_what_is_kept_has_a_gradient() -> None:
    values = torch.ones(50, requires_grad=True)
    result = dropped(values, 0.2, torch.Generator().manual_seed(0))
    result.sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    torch.testing.assert_close(values.grad, (result != 0) / 0.8)
