"""The estimator people use: fit, recommend, similar_items, evaluate, save."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import torch
from torch import Tensor

from densirank import frames
from densirank.csr import Histories
from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.data.splitting import validation_split
from densirank.data.vocabulary import Ids
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation
from densirank.fitting import fit_scorer
from densirank.hardware import resolve_device, resolve_hardware
from densirank.indexing.building import MeasuredIndex, build_index
from densirank.indexing.storing import load_index, save_index
from densirank.methods import method_named
from densirank.ranking.index import Index
from densirank.ranking.scores import VectorScorer
from densirank.ranking.search import search_top_k
from densirank.ranking.topk import top_k
from densirank.risks import HALF_PRECISION
from densirank.settings import SettingOverrides
from densirank.storage import StoredModel, load_model, save_model
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    import polars as pl


class Ranker:
    """Learns p(i|u), the probability that a person's next item is i, and ranks by it.

    ``method`` is a name from :data:`densirank.METHODS`; settings left out take its defaults.

    >>> from densirank import Ranker
    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> ranker = Ranker(dim=8, iterations=20, device="cpu").fit(log[1:])
    >>> ranker.recommend(0, k=1)["item_id"].to_list()   # the even item user 0 has not had
    [0]
    """

    def __init__(
        self,
        method: str = "wd-lgcn",
        *,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
        **settings: Unpack[SettingOverrides],
    ) -> None:
        self.method = method_named(method)
        self.settings = self.method.settings(**settings)
        self.seed = _checked_seed(seed)
        self.device = device
        self.precision = precision
        self._index: MeasuredIndex | None = None
        self._index_at: tuple[Path, str] | None = None
        self._indexed_vectors: Tensor | None = None

    def __repr__(self) -> str:
        return f"Ranker(method={self.method.name!r}, seed={self.seed})"

    # --- fitting -----------------------------------------------------------------------------

    def fit(
        self,
        interactions: Any,
        valid: Any = None,
        *,
        valid_split: Literal["last", "random"] | None = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 30.0,
        snapshots: Snapshots | None = None,
    ) -> Self:
        """Train on interactions, or on anything :func:`densirank.read` takes.

        ``valid`` is a fraction of each user's items to hold out (the last ones where an order is
        known, random ones otherwise; ``valid_split`` says which), or interactions of their own.
        With it, training stops early on nDCG@20 and the best iterate is kept; without it, it runs
        for ``iterations`` steps. ``checkpoint`` is a file to save the run to now and then; if it
        is there already, the run it holds is continued. ``snapshots`` are for looking at some
        iterates on the way.
        """
        data = _as_interactions(interactions)
        if valid is not None and not isinstance(valid, float):
            valid = _as_interactions(valid)
        train_part, held_out = self._hold_out(data, valid, valid_split)
        hardware = resolve_hardware(
            self.device,
            self.precision,
            self.settings.dim,
            has_kernels=self.method.risk in HALF_PRECISION,
        )
        self.interactions_ = data
        self.scorer_, self.training_ = fit_scorer(
            self.method,
            self.settings,
            self.seed,
            hardware,
            train_part,
            held_out,
            callbacks,
            self._checkpoint(checkpoint, checkpoint_seconds, data, valid, valid_split),
            snapshots,
        )
        return self

    def _hold_out(
        self,
        data: Interactions,
        valid: Interactions | float | None,
        how: Literal["last", "random"] | None,
    ) -> tuple[Interactions, Interactions | None]:
        if valid is None:
            return data, None
        if isinstance(valid, float):
            return validation_split(data, valid, how, self.seed)
        return data, valid

    def _checkpoint(
        self,
        path: str | PathLike[str] | None,
        every_seconds: float,
        data: Interactions,
        valid: Interactions | float | None,
        valid_split: str | None,
    ) -> Checkpoint | None:
        if path is None:
            return None
        held_out = valid.fingerprint if isinstance(valid, Interactions) else valid
        run = {
            "method": self.method.name,
            "seed": self.seed,
            "data": data.fingerprint,
            "validation data": held_out,
            "validation split": valid_split,
            **self.settings.to_json(),
        }
        return Checkpoint(Path(path), run, every_seconds)

    # --- use ---------------------------------------------------------------------------------

    def recommend(
        self,
        users: Ids | None = None,
        k: int = 10,
        *,
        filter_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
        approximate: bool = False,
    ) -> pl.DataFrame:
        """The best ``k`` items of each user: ``user_id, item_id, score, probability, rank``.

        ``users`` is an id, several, or None for everybody; ``items`` restricts the catalogue and
        ``exclude`` takes items out of it. The probability is p(i|u) over what could have been
        listed. Where fewer than ``k`` items are left, there are fewer rows.

        ``approximate`` asks the index (:meth:`build_index`) which items to look at: much faster in
        a large catalogue, with the same scores, but the probability is null, for it takes a sum
        over the whole catalogue.
        """
        _check_k(k)
        data, scorer = self.interactions_, self.scorer_
        wanted = np.arange(data.n_users) if users is None else data.user_ids.known(users, "user")
        rows = torch.from_numpy(wanted).to(scorer.device)
        seen = Histories(data, scorer.device) if filter_seen else None
        allowed, excluded = self._item_indices(items), self._item_indices(exclude)
        if approximate:
            blocks = search_top_k(
                self._required_index(),
                scorer,
                rows,
                k,
                seen=seen,
                allowed=allowed,
                excluded=excluded,
            )
        else:
            blocks = top_k(
                scorer,
                rows,
                k,
                seen=seen,
                allowed=allowed,
                excluded=excluded,
                with_normaliser=True,
            )
        return frames.recommendations(blocks, data)

    def similar_items(self, item: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` most similar items: ``item_id, score, rank``.

        The score is the cosine of the vectors, or the weight between the items where a method has
        such (ItemKNN, EASE); then there are fewer rows where an item has fewer neighbours.
        """
        _check_k(k)
        (index,) = self.interactions_.item_ids.known(item, "item")
        vectors = torch.nn.functional.normalize(self.scorer_.item_vectors, dim=1)
        itself = torch.tensor([index], device=vectors.device)
        near = self.scorer_.neighbours
        among = None if near is None else near.rows.take(itself).columns
        similarity = VectorScorer(vectors, vectors, near)
        (lists,) = top_k(similarity, itself, k, allowed=among, excluded=itself)
        return frames.similar(lists, self.interactions_)

    def evaluate(self, test: Any, k: int = 20) -> dict[str, Any]:
        """Metrics at ``k`` over the users of ``test``, ranking all items they have not had.

        Test users the model does not know cannot be ranked for: they are left out and counted in
        ``unknown_users``. Test items it does not know are missed items, counted in
        ``unknown_items``, and so are pairs it was trained on, counted in ``seen_pairs``.
        """
        held_out = self._held_out(test)
        _check_k(k)
        return held_out.evaluate(self.scorer_, k).summary() | {
            "unknown_users": held_out.unknown_users,
            "unknown_items": held_out.unknown_items,
            "seen_pairs": held_out.seen_pairs(),
        }

    def evaluation(self, test: Any, k: int = 20) -> Evaluation:
        """The same as :meth:`evaluate`, with every metric of every user."""
        _check_k(k)
        return self._held_out(test).evaluate(self.scorer_, k)

    def _held_out(self, test: Any) -> HeldOut:
        return HeldOut(_as_interactions(test), self.interactions_, self.scorer_.device)

    # --- an index ----------------------------------------------------------------------------

    def build_index(self, kind: str = "hnsw", *, recall: float = 0.99) -> Self:
        """Make ``recommend(…, approximate=True)`` possible; :meth:`save` keeps the index.

        ``kind`` is hnsw (needs faiss: the extra ``index``) or clusters (needs nothing). The index
        takes the least effort that finds this share of the exact top 20 of a sample of users;
        ``index_.measured`` has the recall of other users, and what building it took.
        """
        seen = Histories(self.interactions_, self.scorer_.device)
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

    def _required_index(self) -> Index:
        found = self.index_
        if found is None:
            raise InputError(
                "the model has no index of its vectors: build one with 'densirank index' or "
                "build_index()"
            )
        return found.index

    # --- keeping -----------------------------------------------------------------------------

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fitted ranker to a folder that :func:`densirank.load` reads."""
        index = self.index_
        save_model(
            Path(folder),
            StoredModel(
                self.method.name,
                self.settings,
                self.seed,
                self.interactions_,
                self.scorer_,
                self.training_,
            ),
        )
        if index is not None:
            save_index(Path(folder), index)

    def _item_indices(self, ids: Ids | None) -> Tensor | None:
        if ids is None:
            return None
        indices = self.interactions_.item_ids.known(ids, "item")
        return torch.from_numpy(indices).to(self.scorer_.device)


def load(folder: str | PathLike[str], device: str = "auto") -> Ranker:
    """A fitted ranker from the folder it was saved to."""
    stored = load_model(Path(folder), resolve_device(device))
    ranker = Ranker(stored.method, seed=stored.seed, device=device)
    ranker.settings = stored.settings
    ranker.interactions_ = stored.interactions
    ranker.scorer_ = stored.scorer
    ranker.training_ = stored.training
    if stored.vectors_sha256 is not None:
        ranker._index_at = Path(folder), stored.vectors_sha256
        ranker._indexed_vectors = stored.scorer.item_vectors
    return ranker


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


def _as_interactions(source: Any) -> Interactions:
    return source if isinstance(source, Interactions) else read(source)


def _check_k(k: int) -> None:
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
