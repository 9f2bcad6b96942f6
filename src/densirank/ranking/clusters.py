"""Items in clusters of near ones; a search reads the few clusters that lie towards the user.

Spherical k-means (Dhillon & Modha 2001) on the lengthened vectors of
:mod:`densirank.ranking.index`. It needs no other package, is built in a fraction of the time a
graph takes, and is stored in a few bytes an item; a search reads more vectors than a graph's does.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor

from densirank.csr import Rows
from densirank.errors import StorageError
from densirank.ranking.index import of_equal_length

ROUNDS = 10
"""Rounds of k-means: later ones move little."""

SAMPLE = 64
"""Vectors a cluster that k-means looks at, at most."""

ENOUGH = 4
"""A search reads clusters with at least so many times the items it is to find."""

_BLOCK = 1 << 24  # products that are held at once


class Clusters:
    """Centres and what belongs to them; ``effort`` is the share of clusters read, in 1/1000."""

    kind: ClassVar[str] = "clusters"
    suffix: ClassVar[str] = ".safetensors"
    efforts: ClassVar[tuple[int, ...]] = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)

    def __init__(self, centres: Tensor, members: Rows, item_vectors: Tensor, effort: int) -> None:
        self._centres = centres  # (clusters, dim) without the added coordinate: a user has 0 there
        self._members = members  # the items of each cluster
        self._vectors = item_vectors[members.columns]  # cluster after cluster, as they are read
        self.effort = effort

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """About 4√items clusters; centres start at items drawn by ``seed``."""
        vectors = of_equal_length(item_vectors)
        n_items = len(vectors)
        chance = torch.Generator().manual_seed(seed)
        n_clusters = max(1, min(n_items // 4, round(4 * math.sqrt(n_items))))
        sample = vectors[torch.randperm(n_items, generator=chance)[: SAMPLE * n_clusters]]
        centres = torch.nn.functional.normalize(sample[:n_clusters], dim=1)
        for _ in range(ROUNDS):
            sums = torch.zeros_like(centres).index_add_(0, _closest(sample, centres), sample)
            lost = sums.square().sum(dim=1) == 0  # no member: it stays where it is
            centres = torch.where(
                lost.unsqueeze(1), centres, torch.nn.functional.normalize(sums, dim=1)
            )
        cluster_of_item = _closest(vectors, centres)
        counts = torch.bincount(cluster_of_item, minlength=n_clusters)
        members = Rows(
            torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            cluster_of_item.argsort(stable=True),
        )
        return cls(centres[:, :-1].contiguous(), members, item_vectors, cls.efforts[0])

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """The clusters that a file holds."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            stored = load_file(path)
            centres, members = stored["centres"], Rows(stored["indptr"], stored["items"])
        except (SafetensorError, KeyError) as error:
            raise StorageError(f"{path} is not a readable file of clusters") from error
        fits = (
            centres.shape == (len(members), item_vectors.shape[1])
            and len(members.columns) == len(item_vectors)
            and int(members.indptr[-1]) == len(item_vectors)
        )
        if not fits:
            raise StorageError(f"{path} is not an index of the model's items")
        return cls(centres, members, item_vectors, cls.efforts[0])

    def save(self, path: Path) -> None:
        """Write the centres and the members; the vectors are the model's own."""
        from safetensors.torch import save_file

        parts = {
            "centres": self._centres,
            "indptr": self._members.indptr,
            "items": self._members.columns,
        }
        save_file(parts, path)

    @property
    def n_items(self) -> int:
        return len(self._vectors)

    @property
    def n_bytes(self) -> int:
        held = (self._centres, self._vectors, self._members.indptr, self._members.columns)
        return sum(tensor.nbytes for tensor in held)

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """The best ``n`` items of the clusters whose centres have the largest products."""
        wanted = min(n, self.n_items)
        found = torch.full((len(queries), wanted), -1)
        for row, query in enumerate(queries):
            near = self._read(query, wanted)
            _, entries = self._members.entries_of(near)
            products = self._vectors[entries] @ query
            best = products.topk(min(wanted, len(entries)), sorted=False).indices
            found[row, : len(best)] = self._members.columns[entries[best]]
        return found

    def _read(self, query: Tensor, n: int) -> Tensor:
        """The clusters to read, which hold enough items to choose ``n`` from."""
        order = (self._centres @ query).argsort(descending=True)
        at_least = math.ceil(self.effort * len(self._centres) / 1000)
        sizes = self._members.counts[order].cumsum(0)
        enough = int(torch.searchsorted(sizes, ENOUGH * n)) + 1
        return order[: max(at_least, enough)]


def _closest(vectors: Tensor, centres: Tensor) -> Tensor:
    """The centre at the smallest angle to each vector."""
    rows = max(1, _BLOCK // len(centres))
    return torch.cat([(part @ centres.T).argmax(dim=1) for part in torch.split(vectors, rows)])
