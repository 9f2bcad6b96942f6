"""Whitened momentum: right by SciPy, blind to rotations, and at home in the trainer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.linalg import fractional_matrix_power
from torch import Tensor, nn

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.settings import Optimiser
from densirank.training.optim import DAMPING, MOMENTUM, Whitened, inverse_root


def _gradient(rows: int, dim: int, seed: int) -> Tensor:
    """Rows that mostly point the same way, with directions of very different strength."""
    random = torch.Generator().manual_seed(seed)
    gradient = torch.randn(rows, dim, generator=random, dtype=torch.float64)
    return gradient * torch.logspace(0, -3, dim, dtype=torch.float64) + 2.0


def _rotation(dim: int) -> Tensor:
    random = torch.Generator().manual_seed(9)
    rotation: Tensor = torch.linalg.qr(
        torch.randn(dim, dim, generator=random, dtype=torch.float64)
    ).Q
    return rotation


def _moved(table: Tensor, gradients: list[Tensor], lr: float) -> Tensor:
    parameter = nn.Parameter(table.clone())
    optimiser = Whitened([parameter], lr)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimiser.step()
    return parameter.detach()


@pytest.mark.parametrize("dim", [1, 5, 64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_inverse_root_is_that_of_scipy(dim: int, dtype: torch.dtype) -> None:
    matrices = torch.stack([(g := _gradient(200, dim, seed)).T @ g for seed in range(3)])
    actual = inverse_root(matrices.to(dtype))
    for matrix, root in zip(matrices.numpy(), actual, strict=True):
        damped = matrix + DAMPING * np.linalg.norm(matrix) * np.eye(dim)
        np.testing.assert_allclose(root, fractional_matrix_power(damped, -0.5), rtol=1e-4)


def test_strong_directions_are_levelled_and_weak_ones_keep_their_order() -> None:
    table, gradient = torch.zeros(500, 6, dtype=torch.float64), _gradient(500, 6, 0)
    step = -_moved(table, [gradient], lr=1.0)
    before = gradient.T @ gradient / len(gradient)
    strengths = torch.linalg.eigvalsh(before)
    expected = strengths / (strengths + DAMPING * torch.linalg.matrix_norm(before))
    torch.testing.assert_close(torch.linalg.eigvalsh(step.T @ step / len(step)), expected)


def test_a_rotated_problem_moves_the_same_way_rotated() -> None:
    rotation, table = _rotation(4), _gradient(30, 4, 5)
    gradients = [_gradient(30, 4, seed) for seed in range(3)]
    plain = _moved(table, gradients, lr=0.1)
    rotated = _moved(table @ rotation, [g @ rotation for g in gradients], lr=0.1)
    torch.testing.assert_close(rotated, plain @ rotation)


def test_the_length_of_the_gradient_does_not_matter() -> None:
    table, gradient = torch.zeros(30, 4, dtype=torch.float64), _gradient(30, 4, 1)
    torch.testing.assert_close(
        _moved(table, [gradient], 0.1), _moved(table, [1e-12 * gradient], 0.1)
    )


def test_momentum_goes_on_when_the_gradient_is_gone() -> None:
    gradient = _gradient(30, 4, 2)
    once = _moved(torch.zeros_like(gradient), [gradient], lr=0.1)
    then = _moved(torch.zeros_like(gradient), [gradient, torch.zeros_like(gradient)], lr=0.1)
    torch.testing.assert_close(then, 2 * once)  # the same direction, whitened to the same length
    assert 0 < MOMENTUM < 1


def test_no_gradient_no_step() -> None:
    table = torch.ones(3, 2)
    assert torch.equal(_moved(table, [torch.zeros(3, 2)], lr=0.1), table)
    parameter = nn.Parameter(table.clone())
    Whitened([parameter], 0.1).step()
    assert torch.equal(parameter.detach(), table)


def test_fewer_rows_than_dimensions_are_no_trouble() -> None:
    moved = _moved(torch.zeros(2, 8), [_gradient(2, 8, 3).float()], lr=0.1)
    assert moved.isfinite().all()
    assert moved.norm() > 0


def test_few_steps_reach_what_adam_needs_many_for() -> None:
    world = planted(600, 300, items_per_user=15, test_items_per_user=5, seed=2)

    def ndcg(optimiser: Optimiser, iterations: int) -> float:
        ranker = Ranker(
            "wd-lgcn",
            dim=16,
            optimiser=optimiser,
            iterations=iterations,
            users_per_batch=100,
            device="cpu",
        )
        return float(ranker.fit(world.train).evaluate(world.test)["ndcg@20"])

    assert ndcg("whitened", 20) > ndcg("adam", 20)


def test_its_momentum_is_part_of_a_checkpoint(tmp_path: Path) -> None:
    world = planted(80, 40, items_per_user=8, test_items_per_user=2, seed=1)
    path = tmp_path / "run.safetensors"

    class Killed(BaseException):
        pass

    def kill(report: object) -> None:
        if path.exists():
            raise Killed

    def ranker() -> Ranker:
        return Ranker(
            "wd-lgcn", optimiser="whitened", dim=8, iterations=40, users_per_batch=20, device="cpu"
        )

    with pytest.raises(Killed):
        ranker().fit(world.train, callbacks=[kill], checkpoint=path, checkpoint_seconds=0)
    resumed = ranker().fit(world.train, checkpoint=path)
    whole = ranker().fit(world.train)
    assert torch.equal(resumed.scorer_.item_vectors, whole.scorer_.item_vectors)


def test_a_step_looks_ahead_to_what_momentum_does_next() -> None:
    """Nesterov's: with m = μ m + g, the table moves by g + μ m, whitened."""
    first, second = _gradient(30, 4, 1), _gradient(30, 4, 2)
    momentum = MOMENTUM * first + second
    ahead = second + MOMENTUM * momentum
    whitened = ahead @ inverse_root((ahead.T @ ahead / len(ahead)).unsqueeze(0)).squeeze(0)
    start = torch.zeros_like(first)
    last = _moved(start, [first, second], lr=0.1) - _moved(start, [first], lr=0.1)
    torch.testing.assert_close(last, -0.1 * whitened)
