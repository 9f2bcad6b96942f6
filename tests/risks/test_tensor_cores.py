"""The half-precision kernels beside the dense reference; where there is no GPU, interpreted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from densirank.risks import Positives, Risk, density, tensor_cores

# A score that WD replaces may be too high for the exponential; the interpreter then warns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered in multiply:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered in multiply:RuntimeWarning"),
]

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
PAIRS = {
    "pde": (tensor_cores.pde_risk, density.pde_risk),
    "wd": (tensor_cores.wd_risk, density.wd_risk),
    "mle": (tensor_cores.mle_risk, density.mle_risk),
}
PositivesIn = Callable[["Case"], Positives]
both = pytest.mark.parametrize(("fast", "reference"), PAIRS.values(), ids=PAIRS.keys())


@dataclass(frozen=True)
class Case:
    """What a batch may look like."""

    n_users: int = 2
    n_candidates: int = 40
    n_outside: int = 0  # items behind the candidates
    dim: int = 5
    user_norm: float = 2.0  # of the longest vectors
    item_norm: float = 2.0
    owned_share: float = 0.2
    owned_by_first: int = 0  # so many candidates, the first ones
    general: bool = False  # with weights and a base density
    seed: int = 0

    def vectors(self) -> tuple[Tensor, Tensor]:
        """In double precision, with values that half precision has too."""
        users, items = self.finer_vectors()
        return users.half().double(), items.half().double()

    def finer_vectors(self) -> tuple[Tensor, Tensor]:
        """With values that only single precision has."""
        random = torch.Generator().manual_seed(self.seed)
        users = torch.randn(self.n_users, self.dim, generator=random)
        items = torch.randn(self.n_candidates + self.n_outside, self.dim, generator=random)
        users *= self.user_norm / users.norm(dim=1).max()
        items *= self.item_norm / items.norm(dim=1).max()
        return users.double(), items.double()


CASES = {
    "one user and two candidates": Case(1, 2, dim=1),
    "nothing a multiple of 64": Case(66, 70, n_outside=3, dim=3, owned_share=0.03),
    "whole words": Case(1, 128),
    "words in several splits": Case(1, 1100, dim=3, owned_share=0.01),
    "many positives": Case(2, 150, owned_share=0.7),
    "positives outside of the candidates": Case(2, 20, n_outside=60, owned_share=0.3),
    "no positive among the candidates": Case(2, 10, n_outside=20, owned_share=0.15, seed=14),
    "a user who has had every candidate": Case(2, 70, n_outside=2, owned_by_first=70),
    "users who have had everything": Case(2, 6, owned_share=1.0),
    "a user with one candidate left": Case(1, 600, owned_share=0.01, owned_by_first=599),
    "one dimension": Case(dim=1, user_norm=30),
    "dimensions between powers of two": Case(dim=100),
    "as many dimensions as there may be": Case(dim=256),
    "short vectors": Case(user_norm=1e-3, item_norm=1e-3),
    "short and long vectors": Case(user_norm=1e-3, item_norm=30),
    "long vectors": Case(n_candidates=100, user_norm=30, item_norm=30),
    "weights and a base density": Case(3, 150, n_outside=9, owned_share=0.1, general=True),
    "weights, many users": Case(70, 20, dim=3, general=True),
    "weights and nothing left": Case(2, 70, n_outside=2, owned_by_first=70, general=True),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def _value_and_gradients(
    risk: Risk,
    vectors: tuple[Tensor, Tensor],
    positives: Positives,
    factor: float = 1.0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | None = None,
) -> tuple[Tensor, ...]:
    """(loss, gradient of the users, gradient of the items), back on the CPU in double precision."""
    users, items = (table.to(device, dtype).requires_grad_() for table in vectors)
    n_candidates = positives.n_candidates
    there = replace(
        positives,
        n_candidates=n_candidates.to(device) if isinstance(n_candidates, Tensor) else n_candidates,
        **{
            name: tensor.to(device)
            for name in ("indptr", "columns", "weights", "user_weights", "log_base")
            if (tensor := getattr(positives, name)) is not None
        },
    )
    loss = risk(users, items, there)
    gradients = torch.autograd.grad(factor * loss, (users, items))
    return tuple(result.detach().cpu().double() for result in (loss, *gradients))


def _by_kernels(
    risk: Risk, vectors: tuple[Tensor, Tensor], positives: Positives, factor: float = 1.0
) -> tuple[Tensor, ...]:
    return _value_and_gradients(risk, vectors, positives, factor, torch.float32, DEVICE)


def _mean_positives(items: Tensor, positives: Positives) -> Tensor:
    """Each user's mean positive vector, (users, dim)."""
    return positives.averaging(len(items), items.dtype) @ items


def _assert_close(
    actual: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float = 2e-3
) -> None:
    """What matters is the relative error in norm: half precision has steps of 1e-3."""
    for one, other in zip(actual, expected, strict=True):
        assert float((one - other).norm()) <= tolerance * float(other.norm())


@both
@every_case
def test_kernels_equal_the_reference_in_value_and_gradients(
    fast: Risk, reference: Risk, positives_in: PositivesIn, case: Case
) -> None:
    vectors, positives = case.vectors(), positives_in(case)
    _assert_close(
        _by_kernels(fast, vectors, positives), _value_and_gradients(reference, vectors, positives)
    )


@both
def test_rounding_the_vectors_costs_less_than_a_percent(
    fast: Risk, reference: Risk, positives_in: PositivesIn
) -> None:
    case = Case(4, 90, n_outside=5, dim=16, user_norm=4.5, item_norm=4.5)
    vectors, positives = case.finer_vectors(), positives_in(case)
    _assert_close(
        _by_kernels(fast, vectors, positives),
        _value_and_gradients(reference, vectors, positives),
        tolerance=1e-2,
    )


small_cases = st.builds(
    Case,
    n_users=st.integers(1, 3),
    n_candidates=st.integers(1, 130),
    n_outside=st.integers(0, 3),
    dim=st.integers(1, 20),
    user_norm=st.sampled_from([0.01, 1.0, 5.0, 30.0]),
    item_norm=st.sampled_from([0.01, 1.0, 5.0, 30.0]),
    owned_share=st.sampled_from([0.05, 0.5, 0.95]),
    owned_by_first=st.sampled_from([0, 1, 64, 200]),
    general=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)


@settings(max_examples=20)
@given(st.sampled_from(list(PAIRS.values())), small_cases, st.sampled_from([1.0, 2.0, -0.3]))
def test_kernels_are_off_by_a_share_of_the_parts_that_are_added_up(
    positives_in: PositivesIn, pair: tuple[Risk, Risk], case: Case, factor: float
) -> None:
    """Unlike the sums, whose terms may cancel, the terms of a gradient have a size to go by."""
    fast, reference = pair
    vectors, positives = case.vectors(), positives_in(case)
    actual = _by_kernels(fast, vectors, positives, factor)
    expected = _value_and_gradients(reference, vectors, positives, factor)
    score = case.user_norm * case.item_norm
    parts = (1 + score, (2 + score) * case.item_norm, (2 + score) * case.user_norm)
    for one, other, size in zip(actual, expected, parts, strict=True):
        assert float((one - other).norm()) <= 2e-3 * size


def test_own_positives_leave_no_trace_in_the_density_of_wd(positives_in: PositivesIn) -> None:
    """Not a small one: what the others get is the same to the last bit, whatever a positive is."""
    case = Case(3, 130, n_outside=1)
    (users, items), positives = case.vectors(), _everybody_has(positives_in(case), [0, 70])
    expected, others = None, torch.arange(len(items)) != 0
    for first in (items[0], torch.full_like(items[0], 60.0), torch.full_like(items[0], -6e4)):
        changed = torch.where(others[:, None], items, first)
        value, of_users, of_items = _by_kernels(tensor_cores.wd_risk, (users, changed), positives)
        means = _mean_positives(changed, positives)
        second_term = value + (users * means).sum(dim=1).mean()
        gradient_of_second_term = of_users + means / len(users)
        if expected is None:
            expected = second_term, gradient_of_second_term, of_items
        assert torch.equal(of_items, expected[2])
        rounding = 1e-6 * float(first.abs().max().clamp(min=1))  # of the two sums above
        torch.testing.assert_close(second_term, expected[0], rtol=0, atol=10 * rounding)
        torch.testing.assert_close(gradient_of_second_term, expected[1], rtol=0, atol=rounding)


def _everybody_has(positives: Positives, items: list[int]) -> Positives:
    """The same with these items among everybody's positives."""
    rows = [
        sorted({*positives.columns[start:stop].tolist(), *items})
        for start, stop in positives.indptr.unfold(0, 2, 1).tolist()
    ]
    indptr = torch.tensor([0, *map(len, rows)]).cumsum(0)
    return replace(positives, indptr=indptr, columns=torch.tensor([i for row in rows for i in row]))


@pytest.mark.parametrize(("n_owned", "n_candidates"), [(320, 600), (448, 512)])
def test_many_own_positives_of_one_direction_do_not_overflow(
    n_owned: int, n_candidates: int
) -> None:
    """Whole splits, or whole words of one, are masked before anything else is seen."""
    users = torch.tensor([[0.25]], dtype=torch.float64)
    items = torch.full((n_candidates, 1), 8.0, dtype=torch.float64)
    items[:n_owned] = 4000.0
    positives = Positives(torch.tensor([0, n_owned]), torch.arange(n_owned), n_candidates)
    value, of_user, of_items = _by_kernels(tensor_cores.wd_risk, (users, items), positives)
    torch.testing.assert_close(float(value), 0.25 * (8 - 4000))
    torch.testing.assert_close(float(of_user), 8.0 - 4000)
    shares = torch.full((n_candidates, 1), 0.25 / (n_candidates - n_owned), dtype=torch.float64)
    shares[:n_owned] = -0.25 / n_owned
    torch.testing.assert_close(of_items, shares, rtol=2e-3, atol=0)


def test_a_user_who_has_had_every_candidate_adds_only_the_positive_term(
    positives_in: PositivesIn,
) -> None:
    case = Case(1, 70, n_outside=2, owned_by_first=70)
    (users, items), positives = case.vectors(), positives_in(case)
    value, of_users, of_items = _by_kernels(tensor_cores.wd_risk, (users, items), positives)
    means = _mean_positives(items, positives)
    torch.testing.assert_close(value, -(users * means).sum(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(of_users, -means, rtol=1e-5, atol=1e-6)
    owned = torch.isin(torch.arange(len(items)), positives.columns)
    assert torch.equal(of_items[~owned], torch.zeros_like(of_items[~owned]))
    assert bool(of_items[owned].any(dim=1).all())


@both
@pytest.mark.parametrize("general", [False, True])
@pytest.mark.parametrize("n_unused", [1, 600])
def test_what_pads_a_batch_changes_nothing_and_gets_no_gradient(
    fast: Risk, reference: Risk, n_unused: int, general: bool, positives_in: PositivesIn
) -> None:
    case = Case(2, 70, n_outside=4, general=general)
    (users, items), positives = case.vectors(), positives_in(case)
    padded_items = torch.cat([items, torch.full((n_unused, case.dim), 50.0, dtype=items.dtype)])
    padded = replace(
        positives,
        columns=torch.cat([positives.columns, torch.arange(20)]),  # have a use: not to be read
        n_candidates=torch.tensor(case.n_candidates, dtype=torch.int32),
    )
    if positives.weights is not None and positives.log_base is not None:
        padded = replace(
            padded,
            weights=torch.cat([positives.weights, torch.full((20,), 9.0)]),
            log_base=torch.cat([positives.log_base, torch.full((n_unused,), 9.0)]),
        )
    value, of_users, of_items = _by_kernels(fast, (users, padded_items), padded)
    expected = _value_and_gradients(reference, (users, items), positives)
    _assert_close((value, of_users, of_items[: len(items)]), expected)
    assert torch.equal(of_items[len(items) :], torch.zeros(n_unused, case.dim, dtype=items.dtype))
