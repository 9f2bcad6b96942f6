"""An index of the items, for catalogues too large to score whole."""

from __future__ import annotations

from typing import Self

from densirank.abilities.fitted import FittedRanker
from densirank.csr import RowsOnDemand
from densirank.errors import InputError
from densirank.indexing.building import MeasuredIndex, build_index
from densirank.indexing.storing import load_index
from densirank.ranking.index import Index


class Searching(FittedRanker):
    """Building an index, and having it at hand while it is that of the vectors."""

    def build_index(self, kind: str = "hnsw", *, recall: float = 0.99) -> Self:
        """Make ``recommend(…, approximate=True)`` possible; :meth:`save` keeps the index.

        ``kind`` is hnsw (needs faiss: the extra ``index``) or clusters (needs nothing). The index
        takes the least effort that finds this share of the exact top 20 of a sample of users;
        ``index_.measured`` has the recall of other users, and what building it took.
        """
        seen = RowsOnDemand(self.interactions_, self.scorer_.device)
        self._index = build_index(self.scorer_, seen, kind, recall=recall, seed=self.seed)
        self._indexed_vectors = self.scorer_.item_vectors
        return self

    @property
    def index_(self) -> MeasuredIndex | None:
        """The index of the item vectors as they are now; a stored one is read when first wanted."""
        if self._indexed_vectors is not self.scorer_.item_vectors:
            return None
        if self._index is None and self._index_at is not None:
            self._index = load_index(*self._index_at, self.scorer_)
        return self._index

    def required_index(self) -> Index:
        """The index, or a sentence that says how to get one."""
        found = self.index_
        if found is None:
            raise InputError(
                "the model has no index of its vectors: build one with 'densirank index' or "
                "build_index()"
            )
        return found.index
