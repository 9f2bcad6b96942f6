"""An index of clusters of similar items; a search reads the few clusters closest to the user.

An inner product is neither an angle nor a distance. An added coordinate, √(M² − ‖e_i‖²) with M the
length of the longest item vector and 0 for users, gives all items the same length and changes no
product (Bachrach et al. 2014); spherical k-means (Dhillon & Modha 2001) then groups items with
large products with the same users. This index needs no other package, is built in a fraction of
the time of a graph and is stored in a few bytes per item. A search reads many more vectors than in
a graph, and nearly all of them if the vectors have no structure.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, Self

import torch
from torch import Tensor

from densirank.errors import StorageError
from densirank.linalg.csr import Rows

ROUNDS = 10
"""Rounds of k-means: later rounds change little."""

SAMPLE = 64
"""Largest number of vectors per cluster that k-means uses."""

ENOUGH = 4
"""A search reads clusters with at least this many times the items it has to find."""

REACH = 0.2
"""The products of a cluster are at most q·mean + ‖q‖·radius (Cauchy and Schwarz). In many
dimensions they stay far below this bound: a fifth of the radius finds most items (on Gowalla .995
of the top 20 in 5 % of the items; .976 by the means alone)."""

_BLOCK = 1 << 24  # products held at once
_PART = 1 << 17  # vectors held at once


class Clusters:
    """Clusters of items; ``effort`` is the share of clusters that a search reads, in 1/1000."""

    kind: ClassVar[str] = "clusters"
    suffix: ClassVar[str] = ".safetensors"
    efforts: ClassVar[tuple[int, ...]] = (5, 10, 15, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480)

    def __init__(self, members: Rows, item_vectors: Tensor, effort: int) -> None:
        self._members = members  # the items of each cluster
        self._vectors = item_vectors[members.columns]  # in the order of the clusters
        own, counts = members.row_of_entry, members.counts.clamp(min=1).unsqueeze(1)
        means = torch.zeros(len(members), item_vectors.shape[1]).index_add_(0, own, self._vectors)
        self._means = means / counts
        self._radii = torch.zeros(len(members))
        for start in range(0, len(own), _PART):
            some = own[start : start + _PART]
            distances = (self._vectors[start : start + _PART] - self._means[some]).norm(dim=1)
            self._radii.scatter_reduce_(0, some, distances, "amax")
        self.effort = effort

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """Build about 4√items clusters; the centres start at items drawn by ``seed``."""
        vectors = of_equal_length(item_vectors)
        n_items = len(vectors)
        chance = torch.Generator().manual_seed(seed)
        n_clusters = max(1, min(n_items // 4, round(4 * math.sqrt(n_items))))
        sample = vectors[torch.randperm(n_items, generator=chance)[: SAMPLE * n_clusters]]
        centres = sample[:n_clusters]
        for _ in range(ROUNDS):
            sums = torch.zeros_like(centres).index_add_(0, _closest(sample, centres), sample)
            without_members = (sums == 0).all(dim=1, keepdim=True)  # these centres stay
            centres = torch.where(without_members, centres, sums)
        cluster_of_item = _closest(vectors, centres)
        counts = torch.bincount(cluster_of_item, minlength=n_clusters)
        members = Rows(
            torch.cat([counts.new_zeros(1), counts.cumsum(0)]),
            cluster_of_item.argsort(stable=True),
        )
        return cls(members, item_vectors, cls.efforts[0])

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """Read the clusters of a file."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            stored = load_file(path)
            members = Rows(stored["indptr"], stored["items"])
        except (SafetensorError, KeyError) as error:
            raise StorageError(f"{path} is not a readable file of clusters") from error
        if len(members.columns) != len(item_vectors):
            raise StorageError(f"{path} is not an index of the model's items")
        return cls(members, item_vectors, cls.efforts[0])

    def save(self, path: Path) -> None:
        """Write the items of each cluster; the rest follows from the vectors of the model."""
        from safetensors.torch import save_file

        save_file({"indptr": self._members.indptr, "items": self._members.columns}, path)

    @property
    def n_items(self) -> int:
        return len(self._vectors)

    @property
    def n_bytes(self) -> int:
        own = (self._means, self._radii, self._vectors)
        held = (*own, self._members.indptr, self._members.columns)
        return sum(tensor.nbytes for tensor in held)

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """The best ``n`` items of the clusters with the highest bounds."""
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
        """The clusters to read, with enough items to find ``n``."""
        length = torch.linalg.vector_norm(query)
        bound = self._means @ query + REACH * length * self._radii
        order = bound.argsort(descending=True)
        at_least = math.ceil(self.effort * len(order) / 1000)
        sizes = self._members.counts[order].cumsum(0)
        enough = int(torch.searchsorted(sizes, ENOUGH * n)) + 1
        near: Tensor = order[: max(at_least, enough)]
        return near


def of_equal_length(item_vectors: Tensor) -> Tensor:
    """The vectors with one more coordinate, which gives all of them the length of the longest.

    >>> of_equal_length(torch.tensor([[3.0], [5.0]])).tolist()
    [[3.0, 4.0], [5.0, 0.0]]
    """
    squares = item_vectors.square().sum(dim=1)
    missing = (squares.max() - squares).clamp(min=0).sqrt()
    return torch.column_stack((item_vectors, missing))


def _closest(vectors: Tensor, centres: Tensor) -> Tensor:
    """The centre at the smallest angle to each vector."""
    directions = torch.nn.functional.normalize(centres, dim=1).T
    rows = max(1, _BLOCK // len(centres))
    return torch.cat([(part @ directions).argmax(dim=1) for part in torch.split(vectors, rows)])
