from __future__ import annotations

import pytest
import torch

from densirank.data.share import Share
from densirank.data.synthetic import planted
from densirank.models import MODELS, sharded
from densirank.models.lightgcn import LightGCNSettings
from densirank.models.sharded import drawn_rows
from densirank.training.batches import BatchSampler
from densirank.world import World

SHARDED = {name: model.sharded for name, model in MODELS.items() if model.sharded is not None}
DATA = planted(50, 30, items_per_user=6, test_items_per_user=1, seed=2).train
CPU = torch.device("cpu")


@pytest.mark.parametrize(("n_rows", "dim"), [(1, 3), (40, 3), (41, 1), (64, 16), (130, 5), (97, 8)])
def test_processes_start_with_the_rows_that_one_would_draw(
    monkeypatch: pytest.MonkeyPatch, n_rows: int, dim: int
) -> None:
    monkeypatch.setattr(sharded, "DRAWN_ROWS", 16)  # several blocks
    whole = torch.randn(n_rows, dim, generator=torch.Generator().manual_seed(4))
    parts, after = [], set()
    for rank in range(3):
        chance = torch.Generator().manual_seed(4)
        parts.append(drawn_rows(n_rows, dim, chance, World(rank, 3).own(n_rows)))
        after.add(float(torch.rand((), generator=chance)))
    assert torch.equal(torch.cat(parts), whole)
    assert len(after) == 1  # what is drawn next is the same for all


@pytest.mark.parametrize("name", SHARDED)
def test_a_split_among_one_process_is_the_whole_model(name: str) -> None:
    """Vectors, final vectors, messages and penalty are those of the model that is not split."""
    settings = LightGCNSettings(dim=4, layers=2, inference_layers=3)
    share = Share.of(World(), DATA)
    split = SHARDED[name](share, settings, torch.Generator().manual_seed(1), 20)
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


def test_models_that_several_processes_can_train_have_a_sharded_form() -> None:
    """A subclass does not inherit it: its vectors are made in another way."""
    assert set(SHARDED) == {"mf", "lightgcn"}
    assert issubclass(MODELS["lightgcn-loops"], MODELS["lightgcn"])
