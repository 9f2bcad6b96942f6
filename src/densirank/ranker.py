"""The estimator people use: fit, recommend, density, sample, evaluate, fold_in, update, save."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank import frames
from densirank.csr import RowsOnDemand
from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.data.splitting import validation_split
from densirank.data.vocabulary import Ids, Vocabulary, listed
from densirank.errors import InputError
from densirank.evaluation import calibration, reliability
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation
from densirank.fitting import Engine, Fitted, fit_scorer
from densirank.hardware import Hardware, resolve_device, resolve_hardware
from densirank.indexing.building import MeasuredIndex, build_index
from densirank.indexing.storing import load_index, save_index
from densirank.methods import method_named
from densirank.models.popularity import log_popularity
from densirank.new_data.explaining import contributions
from densirank.new_data.folding import Trained, fold_in, without_users
from densirank.new_data.histories import Histories
from densirank.new_data.updating import continued, merged, update_settings
from densirank.ranking.blocks import Barring
from densirank.ranking.calibration import CalibratedScorer, Calibration
from densirank.ranking.density import Density, check_size, density_blocks
from densirank.ranking.index import Index
from densirank.ranking.sampling import draw_slates, slate_log_propensities
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

    folded_in_: Histories
    """Of a ranker that :meth:`fold_in` has made: what of the histories it could use."""

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
        data = _as_interactions(interactions)
        if valid is not None and not isinstance(valid, float):
            valid = _as_interactions(valid)
        train_part, held_out = self._hold_out(data, valid, valid_split)
        fitted = engine(
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
        return self if fitted is None else self._keep(data, fitted)

    def _hardware(self) -> Hardware:
        return resolve_hardware(
            self.device,
            self.precision,
            self.settings.dim,
            has_kernels=self.method.risk in HALF_PRECISION,
        )

    def _keep(self, data: Interactions, fitted: Fitted) -> Self:
        self.interactions_ = data
        self.scorer_, self.items_ = fitted.scorer, fitted.items
        self.parameters_, self.training_ = fitted.parameters, fitted.training
        self.calibration_: Calibration | None = None
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
        _check_k(k)
        if unknown not in ("error", "popular"):
            raise InputError(f"unknown users are 'error' or 'popular', not {unknown!r}")
        known = self.interactions_.user_ids
        if users is not None and unknown == "popular" and not known.knows_all(users):
            return self._recommend_to_anybody(users, k, filter_seen, items, exclude, approximate)
        density, wanted = self._density(), self._user_indices(users)
        barring = self._barring(filter_seen, items, exclude)
        if approximate:
            blocks = search_top_k(self._required_index(), self.scorer_, wanted, k, **barring)
        else:
            blocks = top_k(self.scorer_, wanted, k, logits=density.logits, **barring)
        return frames.recommendations(blocks, self.interactions_, density)

    def _recommend_to_anybody(
        self,
        users: Ids,
        k: int,
        filter_seen: bool,
        items: Ids | None,
        exclude: Ids | None,
        approximate: bool,
    ) -> pl.DataFrame:
        """Lists of their own for those the model knows, popular items for all others."""
        ids = self.interactions_.user_ids
        asked = ids.alike(listed(users), "user")
        is_known = ids.indices(asked) >= 0
        strangers = Vocabulary(asked[~is_known])
        popularity = log_popularity(self.items_.counts).to(self.scorer_.device)
        scorer = VectorScorer(popularity.new_ones(len(strangers), 1), popularity)
        density = CalibratedScorer(scorer, Calibration(), torch.from_numpy(self.items_.counts))
        blocks = top_k(
            scorer,
            torch.arange(len(strangers), device=popularity.device),
            k,
            logits=density.logits,
            allowed=self._item_indices(items),
            excluded=self._item_indices(exclude),
        )
        parts = [frames.recommendations(blocks, self.interactions_, density, strangers)]
        if is_known.any():
            known = np.unique(asked[is_known])
            parts.append(
                self.recommend(
                    known,
                    k,
                    filter_seen=filter_seen,
                    items=items,
                    exclude=exclude,
                    approximate=approximate,
                )
            )
        return frames.in_order_of(asked, parts)

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
        return HeldOut(
            _as_interactions(test), self.interactions_, self.scorer_.device, self.items_.counts
        )

    # --- new users and data ------------------------------------------------------------------

    def fold_in(self, interactions: Any) -> Ranker:
        """A ranker of the people in these interactions, over the items this one knows.

        Nothing is trained again: a person's vector follows from the items alone, in milliseconds.
        Items the model does not know are ignored. Whoever has no other is left out, so that
        ``recommend(…, unknown="popular")`` lists popular items for them and anything else says
        that they are not known. ``folded_in_`` of the result counts both.
        """
        histories = Histories.of(_as_interactions(interactions), self.interactions_.item_ids)
        folded = copy(self)
        folded.interactions_ = histories.known
        folded.scorer_ = fold_in(self._trained(), histories.known)
        folded.parameters_ = without_users(self.parameters_)
        folded.folded_in_ = histories
        return folded

    def update(
        self, interactions: Any, iterations: int | None = None, callbacks: Sequence[Callback] = ()
    ) -> Ranker:
        """A ranker of the same settings that knows these interactions as well, ids and all.

        It goes on from the vectors of this one, which stays as it is, and takes a fifth of the
        fit's iterations unless it is told how many. A method that is made and not trained is made
        again.
        """
        data = merged(self.interactions_, _as_interactions(interactions))
        updated = Ranker(
            self.method.name, seed=self.seed, device=self.device, precision=self.precision
        )
        updated.settings = self.settings
        fitted = fit_scorer(
            self.method,
            update_settings(self.method, self.settings, iterations),
            self.seed,
            self._hardware(),
            data,
            held_out=None,
            callbacks=callbacks,
            start=continued(self._trained(), self.interactions_, data),
        )
        return updated._keep(data, fitted)

    def explain(self, user: int | str, item: int | str, k: int = 5) -> pl.DataFrame:
        """Which of the user's items speak most for an item: ``item_id, contribution``.

        A contribution is what the item's score loses when the past item is taken out of the
        history, both histories being folded in.
        """
        _check_k(k)
        data = self.interactions_
        (person,), (index,) = data.user_ids.known(user, "user"), data.item_ids.known(item, "item")
        past, added = contributions(
            self._trained(), data.items_of(int(person)), int(index), data.item_ids
        )
        return frames.contributions(past[:k], added[:k], data)

    def _trained(self) -> Trained:
        return Trained(self.method, self.settings, self.scorer_, self.items_, self.parameters_)

    # --- probabilities -----------------------------------------------------------------------

    def density(
        self,
        users: Ids | None = None,
        items: Ids | None = None,
        *,
        filter_seen: bool = True,
        exclude: Ids | None = None,
    ) -> Density:
        """log p(i|u) of all items or of these, renormalised over what each user could get.

        For more numbers than a call returns at once, ask for some users at a time.

        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> found = Ranker("popularity").fit(log).density("bob")
        >>> print(found.item_ids, np.exp(found.log_probabilities).round(2))
        ['jam' 'rye' 'tea'] [[0.6 0.4 0. ]]
        >>> print(found.effective_items.round(2))
        [1.96]
        """
        data, rows = self.interactions_, self._user_indices(users)
        allowed = self._item_indices(items)
        every = range(data.n_items) if allowed is None else dict.fromkeys(allowed.tolist())
        columns = torch.tensor(list(every), device=rows.device)
        check_size(len(rows), len(columns))
        blocks = density_blocks(self._density(), rows, **self._barring(filter_seen, items, exclude))
        return Density.of(blocks, data, rows, columns)

    def entropy(
        self,
        users: Ids | None = None,
        *,
        filter_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
    ) -> pl.DataFrame:
        """How open each user's next item is: ``user_id, entropy, effective_items``.

        The entropy of p(i|u) in nats, and how many equally likely items would have the same.
        """
        barring = self._barring(filter_seen, items, exclude)
        blocks = density_blocks(self._density(), self._user_indices(users), **barring)
        return frames.entropies(blocks, self.interactions_)

    def sample(
        self,
        users: Ids | None = None,
        k: int = 10,
        *,
        temperature: float = 1.0,
        seed: int = 0,
        filter_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
    ) -> pl.DataFrame:
        """``k`` draws a user from p(i|u)^(1/temperature), each over what the others left.

        Columns are those of :meth:`recommend`, with the first draw at rank 1, and
        ``log_propensity``: the log-probability of the draw given those above it, which adds up to
        that of the slate. A user's slate depends on the seed and on nobody else.
        """
        _check_k(k)
        density = self._density()
        blocks = draw_slates(
            density,
            self._user_indices(users),
            k,
            _checked_temperature(temperature),
            _checked_seed(seed),
            **self._barring(filter_seen, items, exclude),
        )
        return frames.slates(blocks, self.interactions_, density)

    def log_propensity(
        self,
        slates: pl.DataFrame,
        *,
        temperature: float = 1.0,
        filter_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
    ) -> NDArray[np.float64]:
        """The log-propensity that each row of given slates would have in :meth:`sample`.

        ``slates`` has the columns ``user_id, item_id, rank``; each rank 1 begins a slate. An item
        that could not have been drawn has -inf. This is what
        :func:`densirank.evaluation.off_policy.inverse_propensity` wants of a target policy.
        """
        rows, columns, places = frames.slate_matrix(slates, self.interactions_)
        device = self.scorer_.device
        found = slate_log_propensities(
            self._density(),
            rows.to(device),
            columns.to(device),
            _checked_temperature(temperature),
            **self._barring(filter_seen, items, exclude),
        )
        return found.cpu().numpy()[places]

    def calibrate(self, validation: Any, *, popularity: bool = False) -> Self:
        """Fit the temperature of p(i|u) (and its popularity exponent) to held-out items.

        Probabilities change, lists do not. Of many held-out users a fixed sample is looked at.
        """
        draws = self._held_out(validation).draws(calibration.MOST_USERS)
        log_popularity = self._density().log_popularity
        self.calibration_ = calibration.fit_calibration(
            self.scorer_, draws, log_popularity, popularity=popularity
        )
        return self

    def reliability(self, test: Any, bins: int = 10) -> pl.DataFrame:
        """Predicted probabilities against how often held-out items came: one row a bin.

        ``expected`` and ``observed`` count held-out items, ``predicted`` and ``frequency`` are the
        same for each of the ``chances`` an item had, ``standard_error`` is that of the frequency.
        """
        if bins < 1:
            raise InputError(f"bins must be at least 1, not {bins}")
        draws = self._held_out(test).draws(reliability.MOST_USERS)
        return frames.reliability(reliability.reliability(self._density(), draws, bins))

    def _density(self) -> CalibratedScorer:
        item_counts = torch.from_numpy(self.items_.counts)
        return CalibratedScorer(self.scorer_, self.calibration_ or Calibration(), item_counts)

    # --- an index ----------------------------------------------------------------------------

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
                self.items_,
                self.parameters_,
                self.training_,
                self.calibration_,
            ),
        )
        if index is not None:
            save_index(Path(folder), index)

    def _user_indices(self, ids: Ids | None) -> Tensor:
        data = self.interactions_
        indices = np.arange(data.n_users) if ids is None else data.user_ids.known(ids, "user")
        return torch.from_numpy(indices).to(self.scorer_.device)

    def _barring(self, filter_seen: bool, items: Ids | None, exclude: Ids | None) -> Barring:
        return {
            "seen": RowsOnDemand(self.interactions_, self.scorer_.device) if filter_seen else None,
            "allowed": self._item_indices(items),
            "excluded": self._item_indices(exclude),
        }

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
    fitted = Fitted(stored.scorer, stored.items, stored.parameters, stored.training)
    ranker._keep(stored.interactions, fitted)
    ranker.calibration_ = stored.calibration
    if stored.vectors_sha256 is not None:
        ranker._index_at = Path(folder), stored.vectors_sha256
        ranker._indexed_vectors = stored.scorer.item_vectors
    return ranker


def _checked_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


def _checked_temperature(temperature: float) -> float:
    if not 1e-6 <= temperature <= 1e6:
        raise InputError(f"temperature must be between 0.000001 and 1000000, not {temperature}")
    return temperature


def _as_interactions(source: Any) -> Interactions:
    return source if isinstance(source, Interactions) else read(source)


def _check_k(k: int) -> None:
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
