"""The estimator people use: fit, recommend, density, sample, evaluate, fold_in, update, save."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank import frames
from densirank.data.interactions import Interactions
from densirank.data.reading import as_interactions
from densirank.data.splitting import validation_split
from densirank.data.vocabulary import Ids, Vocabulary, listed
from densirank.device import Hardware, resolve_device
from densirank.errors import InputError, NotFittedError
from densirank.evaluation import calibration, reliability
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation
from densirank.fit import FitTask, Fitted, fit_over, fit_scorer
from densirank.linalg.csr import RowsOnDemand
from densirank.methods import Method, method_named
from densirank.models.base import ItemSide, Trained
from densirank.ranking.approximate import Index
from densirank.ranking.blocks import Barring, score_blocks
from densirank.ranking.calibration import CalibratedScorer, Calibration
from densirank.ranking.density import Density, check_size, density_blocks
from densirank.ranking.explain import contributions
from densirank.ranking.fold_in import Histories, fold_in, without_users
from densirank.ranking.index import MeasuredIndex, build_index
from densirank.ranking.lists import Choice, Kind, People, unknown_users
from densirank.ranking.sampling import slate_log_propensities
from densirank.ranking.topk import top_k
from densirank.scores import VectorScorer
from densirank.settings import Settings
from densirank.storage import StoredModel, load_model, save_model
from densirank.stored_index import load_index, save_index
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.checkpoint import Checkpoint
from densirank.update import continued, merged, update_settings
from densirank.world import ONE_PROCESS, World

if TYPE_CHECKING:
    import polars as pl


class Ranker:
    """Learns p(i|u), the probability that a person's next item is i, and ranks by it.

    ``method`` is a name from :data:`densirank.METHODS`; settings left out take its defaults.
    ``settings_`` is what was used, once it is fitted.

    >>> from densirank import Ranker
    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> ranker = Ranker("wd-lgcn", dim=8, iterations=20, device="cpu").fit(log[1:])
    >>> ranker.recommend(0, k=1)["item_id"].to_list()   # the even item user 0 has not had
    [0]
    """

    settings_: Settings
    interactions_: Interactions
    scorer_: VectorScorer
    items_: ItemSide
    parameters_: dict[str, Tensor]
    training_: dict[str, Any]
    calibration_: Calibration | None
    folded_in_: Histories
    """Of a ranker that :meth:`fold_in` has made: what of the histories it could use."""

    def __init__(
        self,
        method: str | None = None,
        *,
        seed: int = 0,
        device: str = "auto",
        precision: str = "auto",
        **settings: Any,
    ) -> None:
        if method is None:
            raise InputError(
                "say which method, such as Ranker('wd-lgcn') (densirank.METHODS has all), or let "
                "densirank.autofit(log) choose"
            )
        method_named(method).settings(**settings)  # nonsense is refused at once
        self.method = method
        self.settings = settings
        self.seed = checked_seed(seed)
        self.device = device
        self.precision = precision
        self._kind: Kind = "known"
        self._index: MeasuredIndex | None = None
        self._index_at: tuple[Path, str] | None = None
        self._indexed_vectors: Tensor | None = None

    def __repr__(self) -> str:
        return f"Ranker(method={self.method!r}, seed={self.seed})"

    def __getattr__(self, name: str) -> Any:
        of_a_fit = name.endswith("_") and not name.startswith("_")
        if of_a_fit and "scorer_" not in vars(self):
            raise NotFittedError("this Ranker is not fitted yet: call fit() first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def spec(self) -> Method:
        """What the method is made of."""
        return method_named(self.method)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the constructor was given, as scikit-learn's estimators have it."""
        own = {key: getattr(self, key) for key in ("method", "seed", "device", "precision")}
        return own | self.settings

    def set_params(self, **params: Any) -> Self:
        """Change what the constructor was given; what is fitted stays as it is."""
        self.__dict__ |= {
            key: value
            for key, value in vars(type(self)(**(self.get_params() | params))).items()
            if not key.startswith("_")
        }
        return self

    # --- fitting -----------------------------------------------------------------------------

    def fit(
        self,
        interactions: Any,
        valid: Any = None,
        *,
        valid_split: Literal["last", "random"] | None = None,
        progress: bool = False,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | PathLike[str] | None = None,
        checkpoint_seconds: float = 30.0,
    ) -> Self:
        """Train on interactions, or on anything :func:`densirank.read` takes.

        Parameters
        ----------
        interactions
            What people had.
        valid
            A fraction of each user's items to hold out, or interactions of their own. With it,
            training stops early on nDCG@20 and the best iterate is kept; without it, it runs for
            ``iterations`` steps.
        valid_split
            Which items of a fraction are held out: the ``last`` where an order is known, ``random``
            ones otherwise.
        progress
            Show a bar (or lines, where there is no terminal) on stderr.
        callbacks
            Called with a report after every step.
        checkpoint
            A file to save the run to now and then; if it is there, the run it holds is continued.

        Raises
        ------
        InputError
            Data or settings that cannot be used.
        TrainingError
            Training that cannot go on: a loss that is no longer finite.
        """
        given: dict[str, Any] = {"valid_split": valid_split, "checkpoint": checkpoint}
        given["checkpoint_seconds"] = checkpoint_seconds
        if progress:
            from densirank.progress import TrainingBar

            with TrainingBar() as bar:
                return self.fit(interactions, valid, callbacks=[*callbacks, bar], **given)
        fit_ranker(self, interactions, valid, callbacks=callbacks, **given)
        return self

    def _keep(self, data: Interactions, fitted: Fitted, settings: Settings | None = None) -> Self:
        self.interactions_ = data
        self.settings_ = settings or self.spec.settings(**self.settings)
        self.scorer_, self.items_ = fitted.scorer, fitted.items
        self.parameters_, self.training_ = fitted.parameters, fitted.training
        self.calibration_ = None
        return self

    # --- lists -------------------------------------------------------------------------------

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

        ``users`` is an id, several, or None for all; ``items`` restricts the catalogue and
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
        that of the slate. A user's slate depends on the seed and on no other user.
        """
        choice = self._choice(k, filter_seen, items, exclude, seed=seed, temperature=temperature)
        people = self.people(self._user_indices(users))
        return frames.recommendations(people, choice, self.interactions_.item_ids)

    def similar_items(self, item: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` most similar items: ``item_id, score, rank``.

        The score is the cosine of the vectors, or the weight between the items where a method has
        such (ItemKNN, EASE); then there are fewer rows where an item has fewer neighbours.
        """
        (index,) = self.interactions_.item_ids.known(item, "item")
        near = self.scorer_.neighbours
        vectors, itself = self.scorer_.item_vectors, torch.tensor([index])
        among = None if near is None else near.rows.take(itself.to(vectors.device)).columns
        return self._similar(VectorScorer(vectors, vectors, near), itself, k, "item", among)

    def similar_users(self, user: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` users whose vectors are at the smallest angle: ``user_id, score, rank``."""
        (index,) = self.interactions_.user_ids.known(user, "user")
        vectors = self.scorer_.user_vectors
        if vectors.shape[1] == 0:
            raise InputError(f"{self.method} has no vectors of users")
        return self._similar(VectorScorer(vectors, vectors), torch.tensor([index]), k, "user")

    def _similar(
        self,
        scorer: VectorScorer,
        itself: Tensor,
        k: int,
        what: Literal["item", "user"],
        among: Tensor | None = None,
    ) -> pl.DataFrame:
        check_k(k)
        vectors = torch.nn.functional.normalize(scorer.item_vectors, dim=1)
        similarity = VectorScorer(vectors, vectors, scorer.sparse_part)
        itself = itself.to(vectors.device)
        (lists,) = top_k(similarity, itself, k, allowed=among, excluded=itself)
        data = self.interactions_
        return frames.similar(lists, data.item_ids if what == "item" else data.user_ids, what)

    def people(self, rows: Tensor) -> People:
        """The users at these indices, for whoever makes lists in a form of its own."""
        return People(
            self._kind,
            self.interactions_.user_ids,
            rows,
            self._density(),
            self.scorer_,
            RowsOnDemand(self.interactions_, self.scorer_.device),
            self.required_index,
        )

    def unknown_users(self, ids: Vocabulary) -> People:
        """Users this ranker does not know, who get what is popular."""
        return unknown_users(ids, self.items_.counts, self.scorer_.device)

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
        >>> from densirank import Ranker
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

    def scores(self, users: Ids, items: Ids) -> NDArray[np.float32]:
        """f_u(i) of pairs, given as two lists of the same length (or one id for all).

        >>> from densirank import Ranker
        >>> ranker = Ranker("popularity").fit([("ann", "tea"), ("bob", "tea"), ("bob", "jam")])
        >>> print(ranker.scores("ann", ["tea", "jam"]).round(3))   # log(1 + users)
        [1.099 0.693]
        """
        data = self.interactions_
        pairs = data.user_ids.known(users, "user"), data.item_ids.known(items, "item")
        try:
            rows, columns = np.broadcast_arrays(*pairs)
        except ValueError as error:
            raise InputError(
                f"{len(pairs[0])} users and {len(pairs[1])} items do not make pairs"
            ) from error
        distinct, place = np.unique(rows, return_inverse=True)
        found = np.empty(len(rows), dtype=np.float32)
        start = 0
        asked = torch.from_numpy(distinct).to(self.scorer_.device)
        for block, scores in score_blocks(self.scorer_, asked):
            here = (place >= start) & (place < start + len(block))
            at = (torch.from_numpy(place[here] - start), torch.from_numpy(columns[here].copy()))
            found[here] = scores.cpu()[at].numpy()
            start += len(block)
        return found

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
            checked_temperature(temperature),
            **self._barring(filter_seen, items, exclude),
        )
        return found.cpu().numpy()[places]

    def calibrate(self, validation: Any, *, popularity: bool = False) -> Self:
        """Fit the temperature of p(i|u) (and its popularity exponent) to held-out items.

        Probabilities change, lists do not. Of many held-out users a fixed sample is looked at.
        """
        draws = self.held_out(validation).draws(calibration.MOST_USERS)
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
        draws = self.held_out(test).draws(reliability.MOST_USERS)
        return frames.reliability(reliability.reliability(self._density(), draws, bins))

    # --- evaluation --------------------------------------------------------------------------

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

    def held_out(self, test: Any) -> HeldOut:
        """Test interactions in this model's terms, for whoever measures it in another way."""
        return HeldOut(
            as_interactions(test), self.interactions_, self.scorer_.device, self.items_.counts
        )

    # --- people, items and interactions that come after the fit --------------------------------

    def fold_in(self, interactions: Any) -> Self:
        """A ranker of the people in these interactions, over the items this one knows.

        Nothing is trained again: a person's vector follows from the items alone, in milliseconds.
        Items the model does not know are ignored. People who have no other are left out, so that
        ``recommend(…, unknown="popular")`` lists popular items for them and anything else says
        that they are not known. ``folded_in_`` of the result counts both.
        """
        histories = Histories.of(as_interactions(interactions), self.interactions_.item_ids)
        folded = copy(self)
        folded.interactions_ = histories.known
        folded.scorer_ = fold_in(self.trained, histories.known)
        folded.parameters_ = without_users(self.parameters_)
        folded.folded_in_ = histories
        folded._kind = "folded-in"
        return folded

    def update(
        self, interactions: Any, iterations: int | None = None, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """A ranker of the same settings that knows these interactions as well, ids and all.

        It goes on from the vectors of this one, which stays as it is, and takes half of the
        fit's iterations unless it is told how many. A method that is made and not trained is made
        again.
        """
        data = merged(self.interactions_, as_interactions(interactions))
        settings = update_settings(self.settings_, iterations)
        hardware = self.spec.hardware(self.device, self.precision, settings)
        task = FitTask(self.spec, settings, self.seed, hardware, data, callbacks=callbacks)
        fitted = fit_scorer(task, continued(self.trained, self.interactions_, data))
        return copy(self)._keep(data, fitted, self.settings_)

    def explain(self, user: int | str, item: int | str, k: int = 5) -> pl.DataFrame:
        """Which of the user's items speak most for an item: ``item_id, contribution``.

        A contribution is what the item's score loses when the past item is taken out of the
        history, both histories being folded in.
        """
        check_k(k)
        data = self.interactions_
        (person,), (index,) = data.user_ids.known(user, "user"), data.item_ids.known(item, "item")
        past, added = contributions(
            self.trained, data.items_of(int(person)), int(index), data.item_ids
        )
        return frames.contributions(past[:k], added[:k], data)

    @property
    def trained(self) -> Trained:
        """What folding in and explaining go by."""
        method = self.spec
        return Trained(
            method.name,
            method.model_type,
            method.risk_spec,
            self.settings_,
            self.scorer_,
            self.items_,
            self.parameters_,
        )

    # --- an index of the items, for catalogues too large to score whole ------------------------

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

    # --- what is inside, and keeping it -------------------------------------------------------

    @property
    def user_vectors_(self) -> NDArray[np.float32]:
        """The users' vectors, (users, dim), in the order of ``interactions_.user_ids``."""
        vectors: NDArray[np.float32] = self.scorer_.user_vectors.cpu().numpy()
        return vectors

    @property
    def item_vectors_(self) -> NDArray[np.float32]:
        """The items' vectors, (items, dim), in the order of ``interactions_.item_ids``."""
        vectors: NDArray[np.float32] = self.scorer_.item_vectors.cpu().numpy()
        return vectors

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fitted ranker to a folder that :func:`densirank.load` reads."""
        index = self.index_
        save_model(
            Path(folder),
            StoredModel(
                self.method,
                self.settings_,
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

    def _density(self) -> CalibratedScorer:
        item_counts = torch.from_numpy(self.items_.counts)
        return CalibratedScorer(self.scorer_, self.calibration_ or Calibration(), item_counts)

    def _choice(
        self,
        k: int,
        filter_seen: bool,
        items: Ids | None,
        exclude: Ids | None,
        *,
        seed: int | None = None,
        temperature: float = 1.0,
        approximate: bool = False,
    ) -> Choice:
        check_k(k)
        return Choice(
            k,
            filter_seen,
            self._item_indices(items),
            self._item_indices(exclude),
            None if seed is None else checked_seed(seed),
            checked_temperature(temperature),
            approximate,
        )

    def _barring(self, filter_seen: bool, items: Ids | None, exclude: Ids | None) -> Barring:
        rows = torch.empty(0, dtype=torch.int64)
        return self.people(rows).barring(self._choice(1, filter_seen, items, exclude))

    def _user_indices(self, ids: Ids | None) -> Tensor:
        data = self.interactions_
        indices = np.arange(data.n_users) if ids is None else data.user_ids.known(ids, "user")
        return torch.from_numpy(indices).to(self.scorer_.device)

    def _item_indices(self, ids: Ids | None) -> Tensor | None:
        if ids is None:
            return None
        indices = self.interactions_.item_ids.known(ids, "item")
        return torch.from_numpy(indices).to(self.scorer_.device)


def fit_ranker(
    ranker: Ranker,
    interactions: Any,
    valid: Any = None,
    *,
    valid_split: Literal["last", "random"] | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    snapshots: Snapshots | None = None,
    world: World = ONE_PROCESS,
) -> Ranker:
    """:meth:`Ranker.fit` for the library itself.

    ``snapshots`` are for looking at some iterates on the way. Of several processes the first one's
    ranker is fitted, and no other.
    """
    if world.sharded and ranker.precision == "half":
        raise InputError("several processes compute in float32; choose that precision (or auto)")
    data = as_interactions(interactions)
    settings = ranker.spec.settings_for(data.ordered, **ranker.settings)
    if valid is not None and not isinstance(valid, float):
        valid = as_interactions(valid)
    train_part, held_out = data, valid
    if isinstance(valid, float):
        train_part, held_out = validation_split(data, valid, valid_split, ranker.seed)
    run = None
    if checkpoint is not None:
        described = {
            "method": ranker.method,
            "seed": ranker.seed,
            "data": data.fingerprint,
            "validation data": valid.fingerprint if isinstance(valid, Interactions) else valid,
            "validation split": valid_split,
            **settings.to_json(),
        }
        run = Checkpoint(Path(checkpoint), described, checkpoint_seconds)
    hardware = ranker.spec.hardware(ranker.device, ranker.precision, settings)
    task = FitTask(
        ranker.spec,
        settings,
        ranker.seed,
        Hardware(world.device) if world.sharded else hardware,
        train_part,
        held_out,
        callbacks,
        run,
        snapshots,
    )
    fitted = fit_over(world, task)
    return ranker if fitted is None else ranker._keep(data.whole(), fitted, settings)


def load(folder: str | PathLike[str], device: str = "auto") -> Ranker:
    """A fitted ranker from the folder it was saved to."""
    stored = load_model(Path(folder), resolve_device(device))
    usual = method_named(stored.method).settings_for(stored.interactions.ordered).to_json()
    given = {key: value for key, value in stored.settings.to_json().items() if value != usual[key]}
    ranker = Ranker(stored.method, seed=stored.seed, device=device, **given)
    fitted = Fitted(stored.scorer, stored.items, stored.parameters, stored.training)
    ranker._keep(stored.interactions, fitted, stored.settings)
    ranker.calibration_ = stored.calibration
    if stored.vectors_sha256 is not None:
        ranker._index_at = Path(folder), stored.vectors_sha256
        ranker._indexed_vectors = stored.scorer.item_vectors
    return ranker


def checked_seed(seed: int) -> int:
    """A seed that generators take, or a sentence."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed}")
    return seed


def checked_temperature(temperature: float) -> float:
    """A temperature that leaves exponentials in range, or a sentence."""
    if not 1e-6 <= temperature <= 1e6:
        raise InputError(f"temperature must be between 0.000001 and 1000000, not {temperature}")
    return temperature


def check_k(k: int) -> None:
    """Refuse lists of no length."""
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
