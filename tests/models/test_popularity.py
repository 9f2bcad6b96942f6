from __future__ import annotations

import numpy as np
import torch
from scipy import sparse

import densirank
from densirank.models.popularity import Popularity


def test_density_is_the_popularity_plus_one_and_the_same_for_everybody() -> None:
    owned = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
    users, items = Popularity(densirank.read(sparse.csr_array(owned))).vectors()
    density = torch.softmax(users @ items.T, dim=1)
    counts_plus_one = torch.tensor([4.0, 2.0, 1.0, 2.0])
    torch.testing.assert_close(density, (counts_plus_one / 9).expand(4, 4))


def test_there_is_nothing_to_train() -> None:
    model = Popularity(densirank.read([(0, 0), (1, 0)]))
    assert list(model.parameters()) == []
    assert set(model.state_dict()) == {"user_vectors", "item_vectors"}
