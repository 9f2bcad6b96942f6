from __future__ import annotations

import pytest
import torch

from densirank.data.synthetic import planted
from densirank.distributed import models
from densirank.distributed.batches import SplitBatchSampler
from densirank.distributed.group import World
from densirank.distributed.models import SPLIT, drawn_rows
from densirank.distributed.shares import Share
from densirank.models import MODELS
from densirank.models.lightgcn import LightGCNSettings
from densirank.risks.weighting import DensitySettings
from densirank.settings import Candidates
from densirank.training.batches import BatchSampler

DATA = planted(50, 30, items_per_user=6, test_items_per_user=1, seed=2).train
CPU = torch.device("cpu")


@pytest.mark.parametrize(("n_rows", "dim"), [(1, 3), (40, 3), (41, 1), (64, 16), (130, 5), (97, 8)])
def test_processes_start_with_the_rows_that_one_would_draw(
    monkeypatch: pytest.MonkeyPatch, n_rows: int, dim: int
) -> None:
    monkeypatch.setattr(models, "DRAWN_ROWS", 16)  # several blocks
    whole = torch.randn(n_rows, dim, generator=torch.Generator().manual_seed(4))
    parts, after = [], set()
    for rank in range(3):
        chance = torch.Generator().manual_seed(4)
        parts.append(drawn_rows(n_rows, dim, chance, World(rank, 3).own(n_rows)))
        after.add(float(torch.rand((), generator=chance)))
    assert torch.equal(torch.cat(parts), whole)
    assert len(after) == 1  # what is drawn next is the same for all


@pytest.mark.parametrize("name", SPLIT)
def test_a_split_among_one_process_is_the_whole_model(name: str) -> None:
    """Vectors, final vectors, messages and penalty are those of the model that is not split."""
    settings, world = LightGCNSettings(dim=4, layers=2, inference_layers=3), World.alone()
    share = Share.of(world, DATA)
    split = SPLIT[name](world, share, settings, torch.Generator().manual_seed(1), 20)
    whole = MODELS[name].of(DATA, settings, torch.Generator().manual_seed(1))
    for mine, theirs in (
        *zip(split.vectors(), whole.vectors(), strict=True),
        *zip(split.final_vectors(), whole.final_vectors(), strict=True),
    ):
        torch.testing.assert_close(mine, theirs)
    messages, expected = split.messages(), whole.messages()
    assert (messages is None) == (expected is None)
    if messages is not None and expected is not None:
        torch.testing.assert_close(messages, expected)
    batch = BatchSampler(DATA, 20, 10, 0, CPU)(0)
    given = (batch.users, batch.items, batch.positives.n_candidates)
    torch.testing.assert_close(split.regularised(*given), whole.regularised(*given))


@pytest.mark.parametrize("candidates", ["all", 10])
def test_the_processes_parts_of_a_batch_are_the_batch(candidates: Candidates) -> None:
    """Every user of it comes once, at the owner, with the same positives and candidates."""
    settings = DensitySettings(users_per_batch=20, candidates=candidates, user_exponent=1.0)
    alone = SplitBatchSampler(World.alone(), Share.of(World.alone(), DATA), settings, 3)
    found = {}
    for rank in range(4):
        world = World(rank, 4)
        share = Share.of(world, DATA)
        part = SplitBatchSampler(world, share, settings, 3)(5)
        for row, user in enumerate((part.users + share.first_user).tolist()):
            own = part.items[part.positives.take(torch.tensor([row])).columns]
            weights = part.positives.user_weights
            assert weights is not None
            found[user] = (own.tolist(), float(weights[row]))
        assert torch.equal(part.candidates, alone(5).candidates)
    whole = alone(5)
    assert sorted(found) == sorted(whole.users.tolist())
    assert whole.positives.user_weights is not None
    for row, user in enumerate(whole.users.tolist()):
        own = whole.items[whole.positives.take(torch.tensor([row])).columns]
        assert found[user] == (own.tolist(), float(whole.positives.user_weights[row]))
