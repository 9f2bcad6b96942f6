"""ALS is implicit's, and what it minimises is what is said."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from implicit.als import AlternatingLeastSquares as Implicit
from scipy.sparse import csr_matrix
from threadpoolctl import threadpool_limits

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.errors import InputError

TRAIN = planted(60, 40, items_per_user=8, test_items_per_user=2, seed=4).train


def _fit(seed: int = 3, iterations: int = 5) -> Ranker:
    ranker = Ranker(
        "als", dim=6, l2=2.0, confidence=7.0, iterations=iterations, seed=seed, device="cpu"
    )
    return ranker.fit(TRAIN)


def test_vectors_are_the_factors_that_implicit_finds() -> None:
    scorer = _fit(seed=3).scorer_
    seed = int(torch.randint(2**31, (), generator=torch.Generator().manual_seed(3)))
    with threadpool_limits(1, "blas"):
        peer = Implicit(
            factors=6, regularization=2.0, alpha=7.0, iterations=5, use_gpu=False, random_state=seed
        )
        peer.fit(csr_matrix(TRAIN.matrix()), show_progress=False)
    np.testing.assert_array_equal(scorer.user_vectors.numpy(), peer.user_factors)
    np.testing.assert_array_equal(scorer.item_vectors.numpy(), peer.item_factors)


def test_an_observed_pair_weighs_confidence_and_any_other_one() -> None:
    scorer = _fit(iterations=300).scorer_
    users, items = (v.double().requires_grad_() for v in (scorer.user_vectors, scorer.item_vectors))
    owned = torch.from_numpy(TRAIN.matrix().toarray())
    squares = torch.where(owned > 0, 7.0, 1.0) * (owned - users @ items.T).square()
    objective = squares.sum() + 2.0 * (users.square().sum() + items.square().sum())
    gradients = torch.autograd.grad(objective, (users, items))
    for vectors, gradient in zip((users, items), gradients, strict=True):
        of_penalty = 2 * 2.0 * vectors.detach()
        assert gradient.norm() < 1e-3 * of_penalty.norm()


def test_the_number_of_threads_changes_nothing() -> None:
    one = _fit()
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = _fit()
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one.scorer_.user_vectors, two.scorer_.user_vectors)
    assert torch.equal(one.scorer_.item_vectors, two.scorer_.item_vectors)


def test_it_works_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    _fit()
    assert capfd.readouterr() == ("", "")


def test_without_implicit_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "implicit", None)
    with pytest.raises(
        InputError, match=r"als needs the package implicit; .* pip install 'densirank\[als\]'"
    ):
        _fit()
