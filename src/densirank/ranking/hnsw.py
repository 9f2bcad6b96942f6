"""A graph of near neighbours that is walked towards the query (Malkov & Yashunin 2018), by faiss.

"Near" is the inner product itself, in the graph as in the search (Morozov & Babenko 2018): long
vectors become everybody's neighbours, and they are what most searches are for. Lengthened to equal
norms, so that the nearest vector is the largest product (Bachrach et al. 2014), trained vectors
crowd around one pole far from every user, and the same effort finds much less: on Gowalla .93 of
the top 20 in place of .99, in twice the time.

The graph's vectors are kept in half precision: what is found is scored again by the model's own.
(In 8 bits, the few longest vectors would decide how coarsely all others are kept.)
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from densirank.errors import InputError, StorageError

NEIGHBOURS = 32
"""Edges of a node (twice as many on the lowest layer)."""

BREADTH = 200
"""Nodes that are kept in view while a node's neighbours are sought."""

PART = 100_000
"""Vectors that are added at a time: between two parts, an interruption is heard."""


class Hnsw:
    """faiss' HNSW; ``effort`` is how many nodes a search keeps in view (efSearch)."""

    kind: ClassVar[str] = "hnsw"
    suffix: ClassVar[str] = ".faiss"
    efforts: ClassVar[tuple[int, ...]] = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536)

    def __init__(self, graph: Any, effort: int) -> None:
        self._graph = graph
        self.effort = effort

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """The graph of some item vectors; nodes get their layers from faiss' own fixed seed."""
        faiss = _faiss()
        vectors = item_vectors.numpy()
        graph = faiss.IndexHNSWSQ(
            vectors.shape[1],
            faiss.ScalarQuantizer.QT_fp16,
            NEIGHBOURS,
            faiss.METRIC_INNER_PRODUCT,
        )
        graph.hnsw.efConstruction = BREADTH
        graph.train(vectors)
        for start in range(0, len(vectors), PART):
            graph.add(vectors[start : start + PART])
        return cls(graph, cls.efforts[0])

    @classmethod
    def load(cls, path: Path, item_vectors: Tensor) -> Self:
        """The graph that a file holds."""
        faiss = _faiss()
        try:
            graph = faiss.read_index(str(path))
        except RuntimeError as error:
            raise StorageError(f"{path} is not a readable faiss index") from error
        size = (graph.ntotal, graph.d)
        if not isinstance(graph, faiss.IndexHNSWSQ) or size != tuple(item_vectors.shape):
            raise StorageError(f"{path} is not an index of the model's items")
        return cls(graph, cls.efforts[0])

    def save(self, path: Path) -> None:
        """Write the graph in faiss' own format."""
        _faiss().write_index(self._graph, str(path))

    @property
    def n_items(self) -> int:
        return int(self._graph.ntotal)

    @property
    def n_bytes(self) -> int:
        edges = self._graph.hnsw.neighbors.size() * 4
        return int(edges + 2 * self._graph.ntotal * self._graph.d)

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """The nearest ``n`` items by the graph; the wider the net, the more of them are right."""
        faiss = _faiss()
        breadth = faiss.SearchParametersHNSW(efSearch=self.effort + n)
        wanted = min(n, self.n_items)
        found = self._graph.search(queries.numpy(), wanted, params=breadth)[1]
        return torch.from_numpy(found)


@cache
def _faiss() -> Any:
    """The package, with as many threads as torch has, or how to get it."""
    try:
        with warnings.catch_warnings():
            # SWIG's types have no __module__: nothing that a user of either could change.
            warnings.filterwarnings("ignore", message="builtin type .* has no __module__")
            import faiss
    except ModuleNotFoundError as error:
        raise InputError(
            "an index of the kind hnsw needs faiss: pip install 'densirank[index]', or choose the "
            "kind clusters"
        ) from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss
