from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from densirank.risks import Positives, Risk, density, fused, tiles

PAIRS = {
    "pde": (fused.pde_risk, density.pde_risk),
    "wd": (fused.wd_risk, density.wd_risk),
    "mle": (fused.mle_risk, density.mle_risk),
}
PositivesIn = Callable[["Case"], Positives]
both = pytest.mark.parametrize(("fast", "reference"), PAIRS.values(), ids=PAIRS.keys())


@dataclass(frozen=True)
class Case:
    """What a batch may look like, and how its scores are cut into blocks and tiles."""

    n_users: int
    n_candidates: int
    n_outside: int = 0  # items behind the candidates
    dim: int = 3
    norm: float = 1.0  # of the longest vectors
    users_per_block: int = 100
    items_per_tile: int = 1000
    saturated: bool = False  # the first user has had every candidate
    owned_share: float = 0.4
    general: bool = False  # with weights and a base density
    seed: int = 0

    @property
    def owned_by_first(self) -> int:
        return self.n_candidates if self.saturated else 0

    def vectors(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        tables = []
        for count in (self.n_users, self.n_candidates + self.n_outside):
            table = torch.randn(count, self.dim, dtype=torch.float64, generator=generator)
            table *= self.norm / table.norm(dim=1).max()
            tables.append(table.to(dtype).requires_grad_())
        return tables[0], tables[1]

    @contextmanager
    def cut_into_blocks(self, dtype: torch.dtype = torch.float64) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            bytes_per_user = self.n_candidates * dtype.itemsize
            patch.setitem(tiles.BLOCK_BYTES, "cpu", self.users_per_block * bytes_per_user)
            rows = min(self.users_per_block, self.n_users)
            patch.setattr(tiles, "TILE_BYTES", self.items_per_tile * rows * dtype.itemsize)
            patch.setattr(tiles, "WHOLE_LINES", 1)
            yield


cases = st.builds(
    Case,
    n_users=st.integers(1, 7),
    n_candidates=st.integers(1, 8),
    n_outside=st.integers(0, 3),
    dim=st.integers(1, 4),
    norm=st.sampled_from([0.1, 1.0, 7.0, 8.0, 50.0]),  # 7² is below SAFE_SCORE, 8² above
    users_per_block=st.integers(1, 8),
    items_per_tile=st.integers(1, 9),
    saturated=st.booleans(),
    general=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


def _value_and_gradients(
    risk: Risk, vectors: tuple[Tensor, Tensor], positives: Positives, factor: float = 1.0
) -> tuple[Tensor, ...]:
    loss = risk(*vectors, positives)
    return loss.detach(), *torch.autograd.grad(factor * loss, vectors)


@both
@settings(max_examples=80)
@given(cases, st.sampled_from([1.0, 2.0, -0.3]))
@example(Case(n_users=1, n_candidates=1), 1.0)
@example(Case(7, 5, users_per_block=3, items_per_tile=2), 1.0)  # a ragged last block, and tile
@example(Case(5, 6, users_per_block=2, items_per_tile=1, saturated=True, general=True), 1.0)
@example(Case(n_users=7, n_candidates=5, norm=50, users_per_block=2, saturated=True), 2.0)
@example(Case(n_users=4, n_candidates=2, n_outside=3, saturated=True), 1.0)
@example(Case(n_users=1, n_candidates=3, norm=50, saturated=True), 1.0)  # nobody unobserved at all
def test_one_pass_equals_the_reference_in_value_and_gradients(
    fast: Risk, reference: Risk, positives_in: PositivesIn, case: Case, factor: float
) -> None:
    vectors, positives = case.vectors(), positives_in(case)
    expected = _value_and_gradients(reference, vectors, positives, factor)
    with case.cut_into_blocks():
        actual = _value_and_gradients(fast, vectors, positives, factor)
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@both
@pytest.mark.parametrize("norm", [1.0, 4.5, 20.0])
def test_single_precision_gradients_are_within_1e_4(
    fast: Risk, reference: Risk, norm: float, positives_in: PositivesIn
) -> None:
    case = Case(60, 400, n_outside=20, dim=64, norm=norm, users_per_block=16, owned_share=0.05)
    case = replace(case, items_per_tile=70)
    _, *expected = _value_and_gradients(reference, case.vectors(), positives_in(case))
    with case.cut_into_blocks(torch.float32):
        _, *actual = _value_and_gradients(fast, case.vectors(torch.float32), positives_in(case))
    for one, other in zip(actual, expected, strict=True):
        assert (one.double() - other).norm() < 1e-4 * other.norm()


@both
@settings(max_examples=40)
@given(cases.filter(lambda case: case.norm <= 8))
def test_single_precision_differs_by_rounding_only(
    fast: Risk, reference: Risk, positives_in: PositivesIn, case: Case
) -> None:
    positives = positives_in(case)
    expected = _value_and_gradients(reference, case.vectors(), positives)
    with case.cut_into_blocks(torch.float32):
        actual = _value_and_gradients(fast, case.vectors(torch.float32), positives)
    assert all(tensor.dtype == torch.float32 for tensor in actual)
    score = case.norm**2  # is off by a few units in the last place, and so is log p with log p0
    base = 0.0 if positives.log_base is None else float(positives.log_base.abs().max())
    rounding = 10 * torch.finfo(torch.float32).eps * (1 + score + base)
    for one, other, scale in zip(actual, expected, (1.0, case.norm, case.norm), strict=True):
        slack = rounding * (1 + 2 * score) * scale
        torch.testing.assert_close(one.double(), other, rtol=0, atol=slack)


@both
@pytest.mark.parametrize("saturated", [False, True])
@pytest.mark.parametrize("norm", [1.0, 8.0])
def test_finite_differences_agree_with_the_gradient(
    fast: Risk, reference: Risk, norm: float, saturated: bool, positives_in: PositivesIn
) -> None:
    case = Case(5, 6, n_outside=2, dim=2, norm=norm, users_per_block=2, saturated=saturated)
    positives = positives_in(case)
    with case.cut_into_blocks():
        assert torch.autograd.gradcheck(lambda u, i: fast(u, i, positives), case.vectors())


@both
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("score", [0.999 * fused.SAFE_SCORE, 1.001 * fused.SAFE_SCORE, 40_000.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_score_is_too_high_or_too_low_for_the_exponential(
    fast: Risk, reference: Risk, sign: int, score: float, dtype: torch.dtype
) -> None:
    norm = score**0.5
    user = torch.tensor([[norm]], dtype=dtype, requires_grad=True)
    items = torch.full((2000, 1), sign * norm, dtype=dtype, requires_grad=True)
    positives = Positives(torch.tensor([0, 1]), torch.tensor([3]), n_candidates=2000)
    actual = _value_and_gradients(fast, (user, items), positives)
    doubled = (user.detach().double().requires_grad_(), items.detach().double().requires_grad_())
    expected = _value_and_gradients(reference, doubled, positives)
    digits = 1e-5 if dtype == torch.float32 else 1e-10
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=digits, atol=digits * score)


def test_a_user_who_has_had_every_candidate_adds_only_the_positive_term(
    positives_in: PositivesIn,
) -> None:
    case = Case(n_users=1, n_candidates=4, n_outside=1, saturated=True)
    (user, items), positives = case.vectors(), positives_in(case)
    mean_positive = items[positives.columns].mean(dim=0)
    value, user_gradient, _ = _value_and_gradients(fused.wd_risk, (user, items), positives)
    torch.testing.assert_close(value, -(user[0] @ mean_positive).detach())
    torch.testing.assert_close(user_gradient[0], -mean_positive.detach())


@both
def test_memory_is_bounded_by_the_block_and_not_by_users_times_candidates(
    fast: Risk, reference: Risk, largest_tensor: Callable[[], Any], positives_in: PositivesIn
) -> None:
    case = Case(60, 200, dim=4, users_per_block=7, items_per_tile=30, owned_share=0.02)
    vectors, positives = case.vectors(), positives_in(case)
    with case.cut_into_blocks(), largest_tensor() as used_by_one_pass:
        _value_and_gradients(fast, vectors, positives)
    with largest_tensor() as used_by_reference:
        _value_and_gradients(reference, vectors, positives)
    assert max(len(positives.columns), *(table.numel() for table in vectors)) < 7 * 200
    block = 7 * 200
    assert 2 * block <= used_by_one_pass.numbers <= 2.25 * block  # scores, their density, a reserve
    assert used_by_reference.numbers >= 60 * 200  # the measure does see such a thing


@both
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("norm", [1.0, 50.0])
@pytest.mark.parametrize("saturated", [False, True])
def test_one_pass_on_a_gpu_equals_the_reference(
    fast: Risk,
    reference: Risk,
    norm: float,
    saturated: bool,
    monkeypatch: pytest.MonkeyPatch,
    positives_in: PositivesIn,
) -> None:
    case = Case(n_users=50, n_candidates=70, n_outside=9, dim=8, norm=norm, saturated=saturated)
    positives = positives_in(case)
    expected = _value_and_gradients(reference, case.vectors(), positives, 2.0)
    monkeypatch.setitem(tiles.BLOCK_BYTES, "cuda", 16 * 70 * 8)
    user_vectors, item_vectors = (
        table.detach().cuda().requires_grad_() for table in case.vectors()
    )
    on_gpu = Positives(positives.indptr.cuda(), positives.columns.cuda(), positives.n_candidates)
    actual = _value_and_gradients(fast, (user_vectors, item_vectors), on_gpu, 2.0)
    on_cpu = tuple(tensor.cpu() for tensor in actual)
    torch.testing.assert_close(on_cpu, expected, rtol=1e-9, atol=1e-9)


@both
def test_a_workspace_changes_nothing_whatever_it_was_used_for_before(
    fast: Callable[..., Tensor], reference: Risk, positives_in: PositivesIn
) -> None:
    workspace = tiles.Workspace()
    cut = Case(9, 40, users_per_block=4, items_per_tile=9)
    for case in (cut, Case(3, 7), Case(12, 60), Case(9, 40)):
        vectors, positives = case.vectors(), positives_in(case)
        with case.cut_into_blocks():
            kept = _value_and_gradients(partial(fast, workspace=workspace), vectors, positives)
        for actual, expected in zip(
            kept, _value_and_gradients(reference, vectors, positives), strict=True
        ):
            torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", ["pde", "wd", "mle"])
def test_each_users_own_risk_and_slope_are_those_of_the_dense_risk(
    name: str, random_batch: Callable[..., Any]
) -> None:
    users, items, _, positives = random_batch(seed=6, n_outside=2)
    own, slopes = fused.of_each_user(
        name, users.detach(), items.detach(), positives, tiles.Workspace()
    )
    for user in range(len(users)):
        alone = users[user : user + 1]
        expected = getattr(density, f"{name}_risk")(alone, items, positives.some(user, user + 1))
        torch.testing.assert_close(own[user], expected.detach())
        (slope,) = torch.autograd.grad(expected, users)
        torch.testing.assert_close(slopes[user], slope[user])


@both
@pytest.mark.parametrize("height", [70.0, 200.0])
def test_a_steep_base_density_does_not_overflow(
    fast: Risk, reference: Risk, height: float, positives_in: PositivesIn
) -> None:
    """exp of log p0 alone may be beyond single precision, however small the scores are."""
    case = Case(6, 8, dim=3, norm=0.5)
    log_base = torch.linspace(-height, height, 8, dtype=torch.float64)
    positives = replace(positives_in(case), log_base=log_base)
    expected = _value_and_gradients(reference, case.vectors(), positives)
    single = replace(positives, log_base=log_base.float())
    actual = _value_and_gradients(fast, case.vectors(torch.float32), single)
    for one, other in zip(actual, expected, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
