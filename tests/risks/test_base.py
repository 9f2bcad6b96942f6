from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from torch import Tensor

from densirank.risks import RISKS, Positives, Risk, density
from densirank.risks import base as blocks
from densirank.risks.adversarial import irgan_risk, irwgan_risk
from densirank.risks.base import in_blocks
from densirank.risks.pairwise import Sampler, pairwise_risk, popular, uniform
from densirank.risks.ratio import ratio_risk

ITEM_SIZE = torch.float64.itemsize


def _every_candidate(
    users: Tensor, items: Tensor, positives: Positives, count: int, chance: torch.Generator
) -> tuple[Tensor, Tensor]:
    drawn = torch.arange(int(positives.n_candidates)).expand(len(positives), -1)
    return drawn, ~positives.are_own(drawn)


DENSE: dict[str, Risk] = {
    "wd": density.wd_risk,
    "multinomial": density.multinomial_risk,
    "ratio": partial(ratio_risk, bound=3.0),
    "irgan": irgan_risk,
    "irwgan": irwgan_risk,
    "pairwise": partial(pairwise_risk, sampler=_every_candidate, negatives=0),
}


@contextmanager
def _blocks_of(rows: int, n_candidates: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(blocks.BLOCK_BYTES, "cpu", rows * n_candidates * ITEM_SIZE)
        yield


@pytest.mark.parametrize("risk", DENSE.values(), ids=DENSE.keys())
@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_users=st.integers(1, 7),
    n_candidates=st.integers(1, 8),
    n_outside=st.integers(0, 3),
    rows=st.integers(1, 8),
    saturated=st.booleans(),
    factor=st.sampled_from([1.0, -0.3]),
)
@example(0, 7, 5, 2, 3, True, 2.0)  # a ragged last part
def test_in_parts_a_risk_has_the_same_value_and_gradients(
    random_batch: Callable[..., tuple[Tensor, Tensor, object, Positives]],
    risk: Risk,
    seed: int,
    n_users: int,
    n_candidates: int,
    n_outside: int,
    rows: int,
    saturated: bool,
    factor: float,
) -> None:
    users, items, _, positives = random_batch(
        seed, n_users, n_candidates, n_outside, saturated=saturated
    )
    results = []
    with _blocks_of(rows, n_candidates):
        for one in (risk, in_blocks(risk)):
            loss = one(users, items, positives)
            results.append((loss.detach(), *torch.autograd.grad(factor * loss, (users, items))))
    torch.testing.assert_close(results[1], results[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("rows", "expected"), [(3, [3, 3, 1]), (7, [7]), (100, [7]), (1, [1] * 7), (0.1, [1] * 7)]
)
def test_parts_have_as_many_users_as_fit_and_at_least_one(
    random_batch: Callable[..., tuple[Tensor, Tensor, object, Positives]],
    monkeypatch: pytest.MonkeyPatch,
    rows: float,
    expected: list[int],
) -> None:
    users, items, _, positives = random_batch(n_users=7, n_candidates=10, n_outside=2)
    seen = []

    def spy(own: Tensor, items: Tensor, part: Positives) -> Tensor:
        assert len(own) == len(part)
        seen.append(len(part))
        return density.pde_risk(own, items, part)

    monkeypatch.setitem(blocks.BLOCK_BYTES, "cpu", int(rows * 10 * ITEM_SIZE))
    in_blocks(spy)(users, items, positives)
    assert seen == expected


def test_a_value_can_be_had_without_gradients(
    random_batch: Callable[..., tuple[Tensor, Tensor, object, Positives]],
) -> None:
    users, items, _, positives = random_batch(n_users=7)
    with torch.no_grad(), _blocks_of(2, 8):
        loss = in_blocks(density.pde_risk)(users, items, positives)
        torch.testing.assert_close(loss, density.pde_risk(users, items, positives))
    assert not loss.requires_grad


def _draws_in_parts(
    sampler: Sampler, users: Tensor, items: Tensor, positives: Positives, rows: int, count: int
) -> tuple[Tensor, Tensor]:
    """All that a sampler draws for the users of a batch that is taken in parts."""
    parts = []

    def remembering(*arguments: object) -> tuple[Tensor, Tensor]:
        parts.append(sampler(*arguments))  # type: ignore[arg-type]
        return parts[-1]

    risk = partial(pairwise_risk, sampler=remembering, negatives=count)
    with _blocks_of(rows, int(positives.n_candidates)):
        in_blocks(risk)(users, items, positives)
    drawn, counts = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return drawn, counts


def test_every_part_draws_its_own_numbers(
    random_batch: Callable[..., tuple[Tensor, Tensor, object, Positives]],
) -> None:
    users, items, _, positives = random_batch(n_users=6, n_candidates=50)
    drawn, _ = _draws_in_parts(uniform, users, items, positives, rows=1, count=20)
    assert len({tuple(row) for row in drawn.tolist()}) == 6
    again, _ = _draws_in_parts(uniform, users, items, positives, rows=1, count=20)
    assert torch.equal(drawn, again)


def test_what_is_popular_is_so_in_the_batch_and_not_in_the_part(
    positives_of: Callable[..., Positives],
) -> None:
    owned = np.zeros((6, 8), dtype=bool)
    owned[0, 7] = True  # who is drawn for
    owned[1:, 0] = owned[1:4, 1] = owned[5, 2] = True
    users, items = torch.zeros(6, 2).double(), torch.zeros(8, 2).double()
    drawn, counts = _draws_in_parts(popular, users, items, positives_of(owned), 1, 9000)
    times = np.bincount(drawn[0][counts[0]], minlength=8)
    had = np.array([5, 3, 1])
    assert times[:3].sum() == times.sum() > 7500  # a tenth of what is drawn is their own
    assert chisquare(times[:3], had / had.sum() * times.sum()).pvalue > 1e-3


@pytest.mark.parametrize("name", [name for name, risk in RISKS.items() if not risk.is_density])
def test_no_risk_makes_anything_of_the_size_users_times_candidates(
    random_batch: Callable[..., tuple[Tensor, Tensor, object, Positives]],
    largest_tensor: Callable[[], Any],
    name: str,
) -> None:
    users, items, _, positives = random_batch(n_users=60, n_candidates=200, dim=4)
    one_each = positives.columns[positives.indptr[:-1]]
    sparse = Positives(torch.arange(61), one_each, 200)
    risk = RISKS[name].make(RISKS[name].settings())
    with _blocks_of(7, 200), largest_tensor() as used:
        risk(users, items, sparse).backward()  # type: ignore[no-untyped-call]
    assert max(users.numel(), items.numel()) <= used.numbers <= 7 * 200
    with largest_tensor() as used_at_once:
        density.multinomial_risk(users, items, sparse)
    assert used_at_once.numbers == 60 * 200  # the measure does see such a thing
