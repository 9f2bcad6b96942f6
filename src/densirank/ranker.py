"""The estimator people use: fit, recommend, density, sample, evaluate, fold_in, update, save."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import torch

from densirank import frames
from densirank.abilities.fitted import as_interactions, check_k, checked_seed
from densirank.abilities.new_data import NewData
from densirank.abilities.probabilities import Probabilities
from densirank.abilities.searching import Searching
from densirank.data.interactions import Interactions
from densirank.data.splitting import validation_split
from densirank.data.vocabulary import Ids, Vocabulary, listed
from densirank.errors import InputError
from densirank.evaluation.metrics import Evaluation
from densirank.fitting import Engine, FitTask, Fitted, fit_scorer
from densirank.hardware import resolve_device
from densirank.indexing.storing import save_index
from densirank.methods import method_named
from densirank.ranking.scores import VectorScorer
from densirank.ranking.topk import top_k
from densirank.settings import SettingOverrides
from densirank.storage import StoredModel, load_model, save_model
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.checkpoint import Checkpoint

if TYPE_CHECKING:
    import polars as pl


class Ranker(Probabilities, NewData, Searching):
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
        self._given = settings
        self.seed = checked_seed(seed)
        self.device = device
        self.precision = precision
        self._index = None
        self._index_at = None
        self._indexed_vectors = None

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
        engine: Engine = fit_scorer,
    ) -> Self:
        """Train on interactions, or on anything :func:`densirank.read` takes.

        ``valid`` is a fraction of each user's items to hold out (the last ones where an order is
        known, random ones otherwise; ``valid_split`` says which), or interactions of their own.
        With it, training stops early on nDCG@20 and the best iterate is kept; without it, it runs
        for ``iterations`` steps. ``checkpoint`` is a file to save the run to now and then; if it
        is there already, the run it holds is continued. ``snapshots`` are for looking at some
        iterates on the way. ``engine`` does the work; where it leaves the result to another
        process, the ranker stays without.
        """
        data = as_interactions(interactions)
        self.settings = self.method.settings_for(data.ordered, **self._given)
        if valid is not None and not isinstance(valid, float):
            valid = as_interactions(valid)
        train_part, held_out = self._hold_out(data, valid, valid_split)
        task = FitTask(
            self.method,
            self.settings,
            self.seed,
            self._hardware(),
            train_part,
            held_out,
            callbacks,
            self._checkpoint(checkpoint, checkpoint_seconds, data, valid, valid_split),
            snapshots,
        )
        fitted = engine(task)
        return self if fitted is None else self._keep(data.whole(), fitted)

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
        unknown: Literal["error", "popular"] = "error",
        approximate: bool = False,
    ) -> pl.DataFrame:
        """The best ``k`` items of each user: ``user_id, item_id, score, probability, rank``.

        ``users`` is an id, several, or None for everybody; ``items`` restricts the catalogue and
        ``exclude`` takes items out of it. The order is that of the scores; the probability is the
        (calibrated) p(i|u) over what could have been listed. Where fewer than ``k`` items are
        left, there are fewer rows. Users the model does not know are an error, or get what is
        popular; with a history, :meth:`fold_in` them.

        ``approximate`` asks the index (:meth:`build_index`) which items to look at: much faster in
        a large catalogue, with the same scores, but the probability is null, for it takes a sum
        over the whole catalogue.
        """
        choice = self._choice(k, filter_seen, items, exclude, approximate=approximate)
        if unknown not in ("error", "popular"):
            raise InputError(f"unknown users are 'error' or 'popular', not {unknown!r}")
        ids, item_ids = self.interactions_.user_ids, self.interactions_.item_ids
        if users is None or unknown == "error" or ids.knows_all(users):
            return frames.recommendations(self.people(self._user_indices(users)), choice, item_ids)
        asked = ids.alike(listed(users), "user")
        is_known = ids.indices(asked) >= 0
        groups = [self.unknown_users(Vocabulary(asked[~is_known]))]
        if is_known.any():
            groups.append(self.people(self._user_indices(np.unique(asked[is_known]))))
        parts = [frames.recommendations(people, choice, item_ids) for people in groups]
        return frames.in_order_of(asked, parts)

    def similar_items(self, item: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` most similar items: ``item_id, score, rank``.

        The score is the cosine of the vectors, or the weight between the items where a method has
        such (ItemKNN, EASE); then there are fewer rows where an item has fewer neighbours.
        """
        check_k(k)
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
        held_out = self.held_out(test)
        check_k(k)
        return held_out.summary(held_out.evaluate(self.scorer_, k))

    def evaluation(self, test: Any, k: int = 20) -> Evaluation:
        """The same as :meth:`evaluate`, with every metric of every user."""
        check_k(k)
        return self.held_out(test).evaluate(self.scorer_, k)

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
                self.items_,
                self.parameters_,
                self.training_,
                self.calibration_,
            ),
        )
        if index is not None:
            save_index(Path(folder), index)


def load(folder: str | PathLike[str], device: str = "auto") -> Ranker:
    """A fitted ranker from the folder it was saved to."""
    stored = load_model(Path(folder), resolve_device(device))
    ranker = Ranker(stored.method, seed=stored.seed, device=device)
    ranker.settings = stored.settings
    fitted = Fitted(stored.scorer, stored.items, stored.parameters, stored.training)
    ranker._keep(stored.interactions, fitted)
    ranker.calibration_ = stored.calibration
    if stored.vectors_sha256 is not None:
        ranker._index_at = Path(folder), stored.vectors_sha256
        ranker._indexed_vectors = stored.scorer.item_vectors
    return ranker
