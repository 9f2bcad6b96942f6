from __future__ import annotations

import numpy as np
import pytest
import torch

from densirank.scores import CalibratedScorer, Calibration, VectorScorer


@pytest.mark.parametrize(("temperature", "exponent"), [(1, 0), (2.5, 0), (1, -0.4), (0.3, 0.7)])
def test_logits_are_the_tempered_scores_and_the_log_popularity(
    temperature: float, exponent: float
) -> None:
    random = torch.Generator().manual_seed(0)
    scorer = VectorScorer(torch.randn(4, 3, generator=random), torch.randn(6, 3, generator=random))
    counts = torch.tensor([0, 5, 1, 100, 3, 0])
    density = CalibratedScorer(scorer, Calibration(temperature, exponent), counts)
    users = torch.tensor([2, 0])
    f = scorer.scores(users)
    expected = f.double().numpy() / temperature + exponent * np.log(1 + counts.numpy())
    before = f.clone()
    np.testing.assert_allclose(density.logits(f).numpy(), expected, rtol=1e-5)
    assert torch.equal(f, before)
    np.testing.assert_allclose(density.scores(users).numpy(), expected, rtol=1e-5)
    some = torch.tensor([[3, 1], [5, 0]])
    np.testing.assert_allclose(
        density.logits(f.gather(1, some), some).numpy(),
        np.take_along_axis(expected, some.numpy(), axis=1),
        rtol=1e-5,
    )


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_is_a_number_above_zero(temperature: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        Calibration(temperature)
