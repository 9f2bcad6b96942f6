"""An index that walks a graph of neighbours towards the query (Malkov & Yashunin 2018), by faiss.

Both the graph and the search use the inner product itself (Morozov & Babenko 2018): long vectors
become neighbours of most items, and most searches end at them. Extended to equal norms, so that the
nearest vector has the largest product (Bachrach et al. 2014), trained vectors crowd around one pole
far from every user, and the same effort finds less: on Gowalla .93 of the top 20 instead of .99, in
twice the time.

The graph keeps its vectors in half precision: the items found are scored again by the vectors of
the model. (In 8 bits, the few longest vectors would set the resolution of all others.)
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
"""Edges per node (twice as many on the lowest layer)."""

BREADTH = 200
"""Candidate nodes while the neighbours of a new node are searched (efConstruction)."""

PART = 100_000
"""Vectors added at a time; the build can be interrupted between two parts."""


class Hnsw:
    """The HNSW graph of faiss; ``effort`` is its number of candidate nodes (efSearch)."""

    kind: ClassVar[str] = "hnsw"
    suffix: ClassVar[str] = ".faiss"
    efforts: ClassVar[tuple[int, ...]] = (32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536)

    def __init__(self, graph: Any, effort: int) -> None:
        self._graph = graph
        self.effort = effort

    @classmethod
    def build(cls, item_vectors: Tensor, seed: int = 0) -> Self:
        """Build the graph; faiss assigns layers to nodes by a fixed seed of its own."""
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
        """Read the graph of a file."""
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
        """Write the graph in the format of faiss."""
        _faiss().write_index(self._graph, str(path))

    @property
    def n_items(self) -> int:
        return int(self._graph.ntotal)

    @property
    def n_bytes(self) -> int:
        edges = self._graph.hnsw.neighbors.size() * 4
        return int(edges + 2 * self._graph.ntotal * self._graph.d)

    def nearest(self, queries: Tensor, n: int) -> Tensor:
        """The ``n`` nearest items that the walk finds."""
        faiss = _faiss()
        breadth = faiss.SearchParametersHNSW(efSearch=self.effort + n)
        wanted = min(n, self.n_items)
        found = self._graph.search(queries.numpy(), wanted, params=breadth)[1]
        return torch.from_numpy(found)


@cache
def _faiss() -> Any:
    """The faiss package, with as many threads as torch; an error if it is not installed."""
    try:
        with warnings.catch_warnings():
            # SWIG's types have no __module__; users cannot change that.
            warnings.filterwarnings("ignore", message="builtin type .* has no __module__")
            import faiss
    except ModuleNotFoundError as error:
        raise InputError(
            "an index of kind 'hnsw' needs faiss: pip install 'densirank[index]', or choose the "
            "kind 'clusters'"
        ) from error
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss
