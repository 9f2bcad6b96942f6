"""The estimator: fit, recommend, density, sample, evaluate, fold_in, update, save."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from densirank import frames
from densirank.data.interactions import Interactions
from densirank.data.reading import as_histories, as_interactions
from densirank.data.splitting import validation_split
from densirank.data.vocabulary import Ids, Vocabulary, listed, named
from densirank.device import Hardware, check_names, resolve_device
from densirank.errors import InputError, NotFittedError, warn
from densirank.evaluation import calibration, reliability
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation
from densirank.fit import FitTask, Fitted, fit_over, fit_scorer
from densirank.linalg.csr import RowsOnDemand
from densirank.methods import Method, method_named
from densirank.models.base import ItemSide, Trained
from densirank.ranking.approximate import Index
from densirank.ranking.blocks import Barring, score_blocks
from densirank.ranking.density import Density, check_size, density_blocks
from densirank.ranking.explain import contributions
from densirank.ranking.fold_in import Histories, fold_in, without_users
from densirank.ranking.index import MeasuredIndex, build_index
from densirank.ranking.lists import (
    UNKNOWN,
    Choice,
    Kind,
    People,
    RankBy,
    Unknown,
    unknown_users,
)
from densirank.ranking.sampling import slate_log_propensities
from densirank.ranking.topk import top_k
from densirank.ranking.untrained import FallbackDensity, with_fallbacks, without_items
from densirank.risks.weighting import base_density
from densirank.scores import CalibratedScorer, Calibration, VectorScorer
from densirank.settings import Settings, flag, real_number, whole_number
from densirank.storage import StoredModel, load_index, load_model, save_index, save_model
from densirank.training.callbacks import Callback, Snapshots
from densirank.training.checkpoint import Checkpoint
from densirank.update import continued, merged, update_settings
from densirank.world import ONE_PROCESS, World

if TYPE_CHECKING:
    import polars as pl


class Ranker:
    """Learns p(i|u) ∝ p0(i)·exp(f_u(i)), the probability of a user's next item, and ranks by it.

    Parameters
    ----------
    method
        A name from :data:`densirank.METHODS`.
    seed
        Same seed, same result (on a CPU).
    device
        ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.
    precision
        ``half`` uses the tensor cores of a GPU, ``float32`` does not; ``auto``: if possible.
    settings
        Settings of the method; the others keep the defaults of the method.

    Attributes
    ----------
    settings_
        All settings of the fit.
    interactions_
        The training data.
    scorer_
        The vectors (and the sparse part) that make the scores f_u(i).
    items_
        What fold-in needs of the items.
    parameters_
        The trained parameters.
    training_
        The course of training.
    calibration_
        The temperature and the popularity exponent of p(i|u), or None.
    folded_in_
        The histories used by :meth:`fold_in`, in the ranker that it returns.

    Raises
    ------
    InputError
        An unknown method or an invalid setting.

    Examples
    --------
    >>> from densirank import Ranker
    >>> log = [(user, item) for user in range(8) for item in range(8) if (user + item) % 2 == 0]
    >>> ranker = Ranker("wd-lgcn", dim=8, iterations=20, device="cpu").fit(log[1:])
    >>> ranker.recommend(0, k=1)["item_id"].to_list()   # the even item that user 0 does not have
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
                "method is required: pass one of densirank.METHODS, such as Ranker('wd-lgcn'), or "
                "let densirank.autofit(log) choose one"
            )
        method_named(method).settings(**settings)  # invalid settings are refused at once
        check_names(device, precision)
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
        """The model, the risk and the constraint of the method.

        Returns
        -------
        Method

        Examples
        --------
        >>> from densirank import Ranker
        >>> Ranker("wd-mf").spec.summary
        'matrix factorisation, WD risk, norm clipping'
        """
        return method_named(self.method)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor, as in scikit-learn.

        Parameters
        ----------
        deep
            Ignored: no parameter is an estimator.

        Returns
        -------
        dict
            ``method``, ``seed``, ``device``, ``precision`` and the given settings.

        Examples
        --------
        >>> from densirank import Ranker
        >>> Ranker("wd-mf", dim=8).get_params()["dim"]
        8
        """
        own = {key: getattr(self, key) for key in ("method", "seed", "device", "precision")}
        return own | self.settings

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor; a fit keeps its results.

        Parameters
        ----------
        params
            New values by name.

        Returns
        -------
        Ranker
            This ranker.

        Raises
        ------
        InputError
            An unknown name or an invalid value.

        Examples
        --------
        >>> from densirank import Ranker
        >>> Ranker("wd-mf", dim=8).set_params(dim=16).settings
        {'dim': 16}
        """
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
        """Train on interactions.

        Parameters
        ----------
        interactions
            Interactions, or any source of :func:`densirank.read`.
        valid
            A fraction of each user's items to hold out, or interactions. With validation, training
            stops early on nDCG@20 and keeps the best iterate; without, it runs for ``iterations``
            steps.
        valid_split
            Which items of a fraction are held out: ``last`` or ``random``. Default: last if the
            order is known.
        progress
            Show a bar on stderr, or lines if there is no terminal.
        callbacks
            Functions that are called with reports during training.
        checkpoint
            A file to save the run to; if it exists, the run is continued.
        checkpoint_seconds
            Seconds between two saves.

        Returns
        -------
        Ranker
            This ranker.

        Raises
        ------
        InputError
            Data or settings that cannot be used.
        TrainingError
            The loss is no longer finite.

        Examples
        --------
        >>> from densirank import Ranker
        >>> Ranker("popularity").fit([("ann", "tea"), ("bob", "tea"), ("bob", "jam")]).interactions_
        Interactions(2 users, 2 items, 3 pairs)
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
        counts = fitted.items.counts
        self.scorer_ = with_fallbacks(fitted.scorer, data.user_counts, counts)
        self.items_ = fitted.items
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
        unknown: Unknown = "error",
        approximate: bool = False,
        rank_by: RankBy = "score",
    ) -> pl.DataFrame:
        """The best ``k`` items of each user.

        The probability is the (calibrated) p(i|u) ∝ p0(i) · exp(f_u(i)) over the items that could
        be listed. If fewer than ``k`` items are left, there are fewer rows.

        Parameters
        ----------
        users
            An id, several ids, or None for all users.
        k
            Items per user.
        filter_seen
            Whether to leave out the items that a user has in training.
        items
            The only items considered; None for the whole catalogue.
        exclude
            Items to leave out.
        unknown
            What users not seen in training get: an ``error``, the ``popular`` items, or no list
            (``skip``, with a warning that counts them). To use a history of theirs, see
            :meth:`fold_in`.
        approximate
            Search the index of :meth:`build_index`: faster in a large catalogue, with the same
            scores but null probabilities, since they need a sum over the whole catalogue.
        rank_by
            ``score``: by f_u(i), how much more likely an item is for this user than for others;
            ``probability``: by p(i|u). They differ with a base density p0 that is not uniform
            (``base_exponent``) or a calibrated popularity exponent.

        Returns
        -------
        polars.DataFrame
            ``user_id, item_id, score, probability, rank``; with ``unknown="popular"`` also
            ``kind``, which is ``popular`` in the rows of unknown users.

        Raises
        ------
        InputError
            A user that the model does not know, or an invalid option.

        Warns
        -----
        DensirankWarning
            Ids in ``items`` or ``exclude`` that the model does not know: they are ignored.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.recommend("bob", k=1).select("item_id", "rank").rows()
        [('jam', 1)]
        >>> asked = ranker.recommend(["zoe", "bob"], k=1, unknown="popular")
        >>> asked.select("user_id", "item_id", "kind").rows()
        [('zoe', 'jam', 'popular'), ('bob', 'jam', 'known')]
        """
        if unknown not in UNKNOWN:
            raise InputError(f"unknown must be 'error', 'popular' or 'skip', not {unknown!r}")
        choice = self._choice(
            k, filter_seen, items, exclude, approximate=approximate, rank_by=rank_by
        )
        ids, item_ids = self.interactions_.user_ids, self.interactions_.item_ids
        if users is None or unknown == "error":
            kinds = unknown == "popular"
            return self._lists(self._user_indices(users), choice, kinds=kinds)
        asked = ids.alike(listed(users), "user")
        is_known = ids.indices(asked) >= 0
        if unknown == "skip":
            if not is_known.all():
                count = len(np.unique(asked[~is_known]))
                warn(f"{count:,} unknown {'user was' if count == 1 else 'users were'} skipped")
            return self._lists(self._user_indices(asked[is_known]), choice)
        parts = [self._lists(self._user_indices(np.unique(asked[is_known])), choice, kinds=True)]
        if not is_known.all():
            people = self.unknown_users(Vocabulary(asked[~is_known]))
            strangers = frames.recommendations(people, choice, item_ids)
            parts.append(frames.of_kind(strangers, people.kind))
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
        """Lists drawn from p(i|u)^(1/temperature) without replacement.

        The slate of a user depends on the seed and on no other user.

        Parameters
        ----------
        users
            An id, several ids, or None for all users.
        k
            Draws per user.
        temperature
            Below 1 favours likely items, above 1 unlikely ones.
        seed
            Seed of the draws.
        filter_seen
            Whether to leave out the items that a user has in training.
        items
            The only items considered; None for the whole catalogue.
        exclude
            Items to leave out.

        Returns
        -------
        polars.DataFrame
            The columns of :meth:`recommend`, the first draw at rank 1, and ``log_propensity``: the
            log-probability of a draw given the draws above it. Its sum is that of the slate.

        Raises
        ------
        InputError
            An id that the model does not know, or an invalid option.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> slate = ranker.sample("bob", k=2, seed=1)
        >>> float(slate["log_propensity"].exp()[1])   # one item was left
        1.0
        """
        choice = self._choice(
            k, filter_seen, items, exclude, seed=checked_seed(seed), temperature=temperature
        )
        return self._lists(self._user_indices(users), choice)

    def similar_items(self, item: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` most similar items.

        The score is the cosine of the vectors, or the weight between items in item-based methods
        (ItemKNN, EASE), where an item may have fewer neighbours than ``k``.

        Parameters
        ----------
        item
            The id of an item.
        k
            Number of items.

        Returns
        -------
        polars.DataFrame
            ``item_id, score, rank``.

        Raises
        ------
        InputError
            An id that the model does not know, or an invalid option.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("itemknn").fit(log)
        >>> sorted(ranker.similar_items("jam")["item_id"])
        ['rye', 'tea']
        """
        index = _one(self.interactions_.item_ids, item, "item")
        near = self.scorer_.neighbours
        vectors, itself = self.scorer_.item_vectors, torch.tensor([index])
        among = None if near is None else near.rows.take(itself.to(vectors.device)).columns
        return self._similar(VectorScorer(vectors, vectors, near), itself, k, "item", among)

    def similar_users(self, user: int | str, k: int = 10) -> pl.DataFrame:
        """The ``k`` users with the highest cosine of the vectors.

        Parameters
        ----------
        user
            The id of a user.
        k
            Number of users.

        Returns
        -------
        polars.DataFrame
            ``user_id, score, rank``.

        Raises
        ------
        InputError
            An unknown user, or a method without vectors of users.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("wd-mf", dim=2, iterations=5, device="cpu").fit(log)
        >>> sorted(ranker.similar_users("ann")["user_id"])
        ['bob', 'eve']
        """
        index = _one(self.interactions_.user_ids, user, "user")
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
        k = checked_k(k)
        vectors = torch.nn.functional.normalize(scorer.item_vectors, dim=1)
        similarity = VectorScorer(vectors, vectors, scorer.sparse_part)
        if what == "item":  # those that nobody had come last
            counts = self.items_.counts
            similarity = with_fallbacks(similarity, np.ones_like(counts), counts)
        itself = itself.to(vectors.device)
        (lists,) = top_k(similarity, itself, k, allowed=among, excluded=itself)
        data = self.interactions_
        return frames.similar(lists, data.item_ids if what == "item" else data.user_ids, what)

    def people(self, rows: Tensor) -> People:
        """Users by index, for lists in other forms than a frame.

        Parameters
        ----------
        rows
            Indices of users.

        Returns
        -------
        People
            Their densities and constraints; :meth:`People.lists` makes lists.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.people(torch.tensor([0, 2])).kind
        'known'
        """
        return People(
            self._kind,
            self.interactions_.user_ids,
            rows,
            self._density(),
            self.scorer_,
            RowsOnDemand(self.interactions_, self.scorer_.device),
            self.required_index,
        )

    def people_without_items(self, rows: Tensor) -> People:
        """Known users without items, by index: popular items are listed for them, as for strangers.

        Parameters
        ----------
        rows
            Indices of users.

        Returns
        -------
        People
            Their densities; :meth:`People.lists` makes lists.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from densirank import Ranker
        >>> from scipy import sparse
        >>> ranker = Ranker("popularity").fit(sparse.csr_array(np.array([[0, 0], [1, 0]])))
        >>> ranker.people_without_items(torch.tensor([0])).kind
        'popular'
        """
        return replace(self.unknown_users(self.interactions_.user_ids), rows=rows)

    def _lists(self, rows: Tensor, choice: Choice, *, kinds: bool = False) -> pl.DataFrame:
        """The lists of users by index, popular ones for those without items, in this order.

        With ``kinds`` each says which it is.
        """
        without = without_items(self.scorer_)
        groups = [self.people(rows)]
        if without is not None and bool(without[rows].any()):
            distinct = torch.unique(rows)
            some, others = distinct[~without[distinct]], distinct[without[distinct]]
            groups = [self.people(some)] if len(some) else []
            groups.append(self.people_without_items(others))
        parts = []
        for people in groups:
            lists = frames.recommendations(people, choice, self.interactions_.item_ids)
            parts.append(frames.of_kind(lists, people.kind) if kinds else lists)
        if groups[0].rows is rows:
            return parts[0]
        return frames.in_order_of(self.interactions_.user_ids.ids[rows.cpu().numpy()], parts)

    def unknown_users(self, ids: Vocabulary) -> People:
        """Users not seen in training, for whom popular items are listed.

        Parameters
        ----------
        ids
            Their ids.

        Returns
        -------
        People
            Their densities; :meth:`People.lists` makes lists.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.unknown_users(Vocabulary(["zoe"])).kind
        'popular'
        """
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
        """log p(i|u), renormalised over the items that each user could get.

        For more numbers than one call returns, pass fewer users at a time.

        Parameters
        ----------
        users
            An id, several ids, or None for all users.
        items
            The only items considered; None for the whole catalogue.
        filter_seen
            Whether to leave out the items that a user has in training.
        exclude
            Items to leave out.

        Returns
        -------
        Density
            Log-probabilities (users × items), entropies and effective numbers of items.

        Raises
        ------
        InputError
            An id that the model does not know, or a result that is too large.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> found = Ranker("popularity").fit(log).density("bob")
        >>> print(found.item_ids, np.exp(found.log_probabilities).round(2))
        ['jam' 'rye' 'tea'] [[0.6 0.4 0. ]]
        >>> print(found.effective_items.round(2))
        [1.96]
        """
        data, rows = self.interactions_, self._user_indices(users)
        barring = self._barring(filter_seen, items, exclude)
        allowed = barring["allowed"]
        every = range(data.n_items) if allowed is None else dict.fromkeys(allowed.tolist())
        columns = torch.tensor(list(every), dtype=torch.int64, device=rows.device)
        check_size(len(rows), len(columns))
        blocks = density_blocks(self._density(), rows, **barring)
        return Density.of(blocks, data, rows, columns)

    def entropy(
        self,
        users: Ids | None = None,
        *,
        filter_seen: bool = True,
        items: Ids | None = None,
        exclude: Ids | None = None,
    ) -> pl.DataFrame:
        """The entropy of p(i|u) in nats, and the effective number of items (its exponential).

        Parameters
        ----------
        users
            An id, several ids, or None for all users.
        filter_seen
            Whether to leave out the items that a user has in training.
        items
            The only items considered; None for the whole catalogue.
        exclude
            Items to leave out.

        Returns
        -------
        polars.DataFrame
            ``user_id, entropy, effective_items``.

        Raises
        ------
        InputError
            An id that the model does not know, or an invalid option.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.entropy("ann")["effective_items"].to_list()   # one item is left
        [1.0]
        """
        barring = self._barring(filter_seen, items, exclude)
        blocks = density_blocks(self._density(), self._user_indices(users), **barring)
        return frames.entropies(blocks, self.interactions_)

    def scores(self, users: Ids, items: Ids) -> NDArray[np.float32]:
        """f_u(i) of pairs.

        Parameters
        ----------
        users, items
            Ids: two lists of the same length, or one id for all of the other list.

        Returns
        -------
        numpy.ndarray
            One score per pair.

        Raises
        ------
        InputError
            An id that the model does not know, or lists of different lengths.

        Examples
        --------
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
        """The log-propensity of each row of given slates, as if drawn by :meth:`sample`.

        :func:`densirank.evaluation.off_policy.inverse_propensity` takes it as that of a target
        policy.

        Parameters
        ----------
        slates
            A frame with ``user_id, item_id, rank``; each rank 1 begins a slate.
        temperature
            The temperature of :meth:`sample`.
        filter_seen
            Whether to leave out the items that a user has in training.
        items
            The only items considered; None for the whole catalogue.
        exclude
            Items to leave out.

        Returns
        -------
        numpy.ndarray
            One value per row; -inf for an item that cannot be drawn.

        Raises
        ------
        InputError
            Slates with missing columns, wrong ranks, unknown ids or repeated items.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> slates = ranker.sample("bob", k=2, seed=1)
        >>> np.allclose(ranker.log_propensity(slates), slates["log_propensity"])
        True
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
        """Fit the temperature of p(i|u), and its popularity exponent, to held-out items.

        Probabilities change, lists do not. At most 1,000 held-out users are used, a fixed sample.

        Parameters
        ----------
        validation
            Held-out interactions, or any source of :func:`densirank.read`.
        popularity
            Whether to fit the popularity exponent as well.

        Returns
        -------
        Ranker
            This ranker, with ``calibration_``.

        Raises
        ------
        InputError
            No held-out item can be predicted, or no temperature fits.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.calibrate([("bob", "jam"), ("ann", "rye")]).calibration_.held_out_items
        2
        """
        draws = self.held_out(validation).draws(calibration.MAX_USERS)
        without = without_items(self.scorer_)
        if without is not None:  # they get the popularity fallback, which no calibration changes
            draws = replace(draws, users=draws.users[~without[draws.users]])
            if len(draws.users) == 0:
                raise InputError("no held-out user has an item in training: nothing to calibrate")
        density = self._density()
        self.calibration_ = calibration.fit_calibration(
            self.scorer_,
            draws,
            density.log_popularity,
            popularity=popularity,
            log_base=density.log_base,
        )
        return self

    def reliability(self, test: Any, bins: int = 10) -> pl.DataFrame:
        """Predicted probabilities against observed frequencies of held-out items, in bins.

        Parameters
        ----------
        test
            Held-out interactions, or any source of :func:`densirank.read`.
        bins
            Largest number of bins.

        Returns
        -------
        polars.DataFrame
            One row per bin. ``expected`` and ``observed`` are numbers of held-out items,
            ``predicted`` and ``frequency`` the same per chance (there are ``chances``),
            ``standard_error`` is that of the frequency.

        Raises
        ------
        InputError
            No held-out item can be predicted, or ``bins`` is below 1.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> table = ranker.reliability([("bob", "jam"), ("ann", "rye")])
        >>> int(table["observed"].sum()), round(float(table["expected"].sum()), 6)
        (2, 2.0)
        """
        bins = whole_number("bins", bins, 1)
        draws = self.held_out(test).draws(reliability.MAX_USERS)
        return frames.reliability(reliability.reliability(self._density(), draws, bins))

    # --- evaluation --------------------------------------------------------------------------

    def evaluate(
        self, test: Any, k: int | Iterable[int] = 20, *, filter_seen: bool = True
    ) -> dict[str, Any]:
        """Mean metrics at ``k`` over the users of ``test``, ranking all their unseen items.

        Test users that the model does not know are left out and counted in ``unknown_users``.
        Unknown test items (``unknown_items``) and training pairs (``seen_pairs``) count as missed.

        Parameters
        ----------
        test
            Held-out interactions, or any source of :func:`densirank.read`.
        k
            Length of the lists, or several lengths.
        filter_seen
            Whether to leave out the items that a user has in training. Without, training pairs in
            ``test`` can be hits, as where people buy the same again.

        Returns
        -------
        dict
            ``recall@k``, ``ndcg@k`` and more at each ``k``, and the counts.

        Raises
        ------
        InputError
            None of the test users is known, or ``k`` is below 1.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> metrics = ranker.evaluate([("bob", "jam"), ("zoe", "tea")], k=1)
        >>> metrics["recall@1"], metrics["unknown_users"]
        (1.0, 1)
        """
        lengths = checked_lengths(k)
        held_out = self.held_out(test, filter_seen=filter_seen)
        return held_out.summary(*(held_out.evaluate(self.scorer_, length) for length in lengths))

    def evaluation(self, test: Any, k: int = 20, *, filter_seen: bool = True) -> Evaluation:
        """The same as :meth:`evaluate`, with every metric of every user.

        Parameters
        ----------
        test
            Held-out interactions, or any source of :func:`densirank.read`.
        k
            Length of the lists.
        filter_seen
            Whether to leave out the items that a user has in training.

        Returns
        -------
        Evaluation
            Metrics per user, coverage and mean popularity.

        Raises
        ------
        InputError
            None of the test users is known, or ``k`` is below 1.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.evaluation([("bob", "jam"), ("ann", "tea")], k=1).per_user["recall"].tolist()
        [0.0, 1.0]
        """
        k = checked_k(k)
        return self.held_out(test, filter_seen=filter_seen).evaluate(self.scorer_, k)

    def held_out(self, test: Any, *, filter_seen: bool = True) -> HeldOut:
        """Test interactions in the indices of this model, for other evaluations.

        Parameters
        ----------
        test
            Held-out interactions, or any source of :func:`densirank.read`.
        filter_seen
            Whether its evaluations leave out the items that a user has in training.

        Returns
        -------
        HeldOut

        Raises
        ------
        InputError
            None of the test users is known.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.held_out([("bob", "jam"), ("zoe", "tea")]).unknown_users
        1
        """
        return HeldOut(
            as_interactions(test),
            self.interactions_,
            self.scorer_.device,
            self.items_.counts,
            filter_seen=flag("filter_seen", filter_seen),
        )

    # --- people, items and interactions that come after the fit --------------------------------

    def fold_in(self, interactions: Any) -> Self:
        """A ranker of the people in these interactions, over the items of this one.

        Nothing is trained again: the vector of a person follows from the items, in milliseconds.
        Unknown items are ignored. People without a known item are left out: ``recommend(…,
        unknown="popular")`` lists popular items for them. ``folded_in_`` of the result counts both.

        Parameters
        ----------
        interactions
            Histories, or any source of :func:`densirank.read`. Pairs are in order of time, the
            oldest first; of other sources an order is known as ``read`` knows it.

        Returns
        -------
        Ranker
            A new ranker, whose users are these people.

        Raises
        ------
        InputError
            No item is known, or the method cannot fold in.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> folded = ranker.fold_in([("zoe", "jam"), ("zoe", "cake")])
        >>> folded.recommend("zoe", k=1)["item_id"].to_list(), folded.folded_in_.unknown_items
        (['tea'], 1)
        """
        histories = Histories.of(as_histories(interactions), self.interactions_.item_ids)
        folded = copy(self)
        folded.interactions_ = histories.known
        scorer, counts = fold_in(self.trained, histories.known), self.items_.counts
        folded.scorer_ = with_fallbacks(scorer, histories.known.user_counts, counts)
        folded.parameters_ = without_users(self.parameters_)
        folded.folded_in_ = histories
        folded._kind = "folded-in"
        return folded

    def update(
        self, interactions: Any, iterations: int | None = None, callbacks: Sequence[Callback] = ()
    ) -> Self:
        """A ranker with the same settings that is also trained on new interactions, ids included.

        Training continues from the vectors of this ranker, which does not change. A method without
        training is fitted again. The new interactions are merged by time if there are timestamps on
        both sides, and otherwise count as later; a model that uses the order of time needs one in
        them as well (timestamps, or ``read(…, ordered=True)``). Weights of repeated pairs add up.

        Parameters
        ----------
        interactions
            New interactions, or any source of :func:`densirank.read`.
        iterations
            Training steps. Default: half as many as in the fit.
        callbacks
            Functions that are called with reports during training.

        Returns
        -------
        Ranker
            A new ranker of the old and the new interactions.

        Raises
        ------
        InputError
            Data that cannot be used, or a ranker without trained parameters, such as that of a
            fold-in.
        TrainingError
            The loss is no longer finite.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.update([("zoe", "tea")]).recommend("zoe", k=1)["item_id"].to_list()
        ['jam']
        """
        data = merged(self.interactions_, as_interactions(interactions))
        steps = None if iterations is None else whole_number("iterations", iterations, 1)
        settings = update_settings(self.settings_, steps)
        hardware = self.spec.hardware(self.device, self.precision, settings)
        task = FitTask(self.spec, settings, self.seed, hardware, data, callbacks=callbacks)
        fitted = fit_scorer(task, continued(self.trained, self.interactions_, data))
        if self.calibration_ is not None:
            warn("the calibration does not carry over to the updated ranker: calibrate it again")
        return copy(self)._keep(data, fitted, self.settings_)

    def explain(self, user: int | str, item: int | str, k: int = 5) -> pl.DataFrame:
        """The items of a user that contribute most to the score of an item.

        A contribution is the drop of the score when the past item is removed from the history, both
        histories being folded in.

        Parameters
        ----------
        user, item
            Their ids.
        k
            Number of past items.

        Returns
        -------
        polars.DataFrame
            ``item_id, contribution``, the highest first.

        Raises
        ------
        InputError
            An id that the model does not know, no other past item, or a method that cannot fold in.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("itemknn").fit(log)
        >>> ranker.explain("bob", "jam")["item_id"].to_list()
        ['tea']
        """
        k, data = checked_k(k), self.interactions_
        person, index = _one(data.user_ids, user, "user"), _one(data.item_ids, item, "item")
        past, added = contributions(self.trained, data, person, index)
        return frames.contributions(past[:k], added[:k], data)

    @property
    def trained(self) -> Trained:
        """The parts of the fit that fold-in and explanations use.

        Returns
        -------
        Trained

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.trained.name
        'popularity'
        """
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
        """Build an index of the item vectors, for ``recommend(…, approximate=True)``.

        The index has the least effort with this recall on a sample of users. ``index_.measured``
        has the recall on other users and the cost of the index. :meth:`save` stores the index.

        Parameters
        ----------
        kind
            ``hnsw`` (needs faiss: the extra ``index``) or ``clusters`` (needs no package).
        recall
            Share of the exact top 20 that searches have to find.

        Returns
        -------
        Ranker
            This ranker, with ``index_``.

        Raises
        ------
        InputError
            An unknown kind, a missing package, a recall out of range, or a method without vectors.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("wd-mf", dim=2, iterations=5, device="cpu").fit(log)
        >>> ranker.build_index("clusters").index_.measured.recall
        1.0
        """
        seen = RowsOnDemand(self.interactions_, self.scorer_.device)
        self._index = build_index(self.scorer_, seen, kind, recall=recall, seed=self.seed)
        self._indexed_vectors = self.scorer_.item_vectors
        return self

    @property
    def index_(self) -> MeasuredIndex | None:
        """The index of the current item vectors, or None; a stored one is read at first use.

        Returns
        -------
        MeasuredIndex or None

        Raises
        ------
        StorageError
            A stored index that is damaged.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.index_ is None
        True
        """
        if self._indexed_vectors is not self.scorer_.item_vectors:
            return None
        if self._index is None and self._index_at is not None:
            self._index = load_index(*self._index_at, self.scorer_)
        return self._index

    def required_index(self) -> Index:
        """The index of the item vectors.

        Returns
        -------
        Index

        Raises
        ------
        InputError
            The model has no index.

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("wd-mf", dim=2, iterations=5, device="cpu").fit(log)
        >>> ranker.build_index("clusters").required_index().kind
        'clusters'
        """
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
        """The user vectors, (users, dim), in the order of ``interactions_.user_ids``.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.user_vectors_.shape
        (3, 1)
        """
        vectors: NDArray[np.float32] = self.scorer_.user_vectors.cpu().numpy()
        return vectors

    @property
    def item_vectors_(self) -> NDArray[np.float32]:
        """The item vectors, (items, dim), in the order of ``interactions_.item_ids``.

        Returns
        -------
        numpy.ndarray

        Examples
        --------
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> ranker.item_vectors_.shape
        (3, 1)
        """
        vectors: NDArray[np.float32] = self.scorer_.item_vectors.cpu().numpy()
        return vectors

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the fitted ranker to a folder, for :func:`densirank.load`.

        Parameters
        ----------
        folder
            A new or an empty folder, or one with a model, which is replaced.

        Raises
        ------
        InputError
            A folder that holds something else.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> from densirank import Ranker
        >>> log = [("ann", "tea"), ("ann", "jam"), ("bob", "tea"), ("eve", "rye"), ("eve", "jam")]
        >>> ranker = Ranker("popularity").fit(log)
        >>> with TemporaryDirectory() as folder:
        ...     ranker.save(folder)
        ...     load(folder).method
        'popularity'
        """
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

    def known_items(self, ids: Ids | None, name: str) -> Tensor | None:
        """The indices of the items that the model knows; a warning counts the others.

        Parameters
        ----------
        ids
            An id, several ids, or None.
        name
            The argument, as the warning names it.

        Returns
        -------
        torch.Tensor or None

        Examples
        --------
        >>> from densirank import Ranker
        >>> ranker = Ranker("popularity").fit([("ann", "tea"), ("bob", "tea"), ("bob", "jam")])
        >>> ranker.known_items(["tea", "jam"], "items")
        tensor([1, 0])
        """
        if ids is None:
            return None
        given = listed(ids)
        indices = self.interactions_.item_ids.indices(given)
        if (indices < 0).any():
            ignored = list(dict.fromkeys(given[indices < 0].tolist()))
            those = "item is" if len(ignored) == 1 else "items are"
            warn(f"{len(ignored):,} {those} unknown and ignored in {name}: {named(ignored)}")
        return torch.from_numpy(indices[indices >= 0]).to(self.scorer_.device)

    def _density(self) -> CalibratedScorer:
        item_counts = torch.from_numpy(self.items_.counts)
        log_base = base_density(self.settings_, self.items_.counts, self.scorer_.device)
        calibration = self.calibration_ or Calibration()
        return FallbackDensity(self.scorer_, calibration, item_counts, log_base)

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
        rank_by: RankBy = "score",
    ) -> Choice:
        if rank_by not in get_args(RankBy):
            raise InputError(f"rank_by must be 'score' or 'probability', not {rank_by!r}")
        if approximate and rank_by != "score":
            raise InputError("approximate lists are ranked by score: probabilities need all items")
        return Choice(
            checked_k(k),
            flag("filter_seen", filter_seen),
            self.known_items(items, "items"),
            self.known_items(exclude, "exclude"),
            seed,
            checked_temperature(temperature),
            flag("approximate", approximate),
            rank_by,
        )

    def _barring(self, filter_seen: bool, items: Ids | None, exclude: Ids | None) -> Barring:
        rows = torch.empty(0, dtype=torch.int64)
        return self.people(rows).barring(self._choice(1, filter_seen, items, exclude))

    def _user_indices(self, ids: Ids | None) -> Tensor:
        data = self.interactions_
        indices = np.arange(data.n_users) if ids is None else data.user_ids.known(ids, "user")
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
    """:meth:`Ranker.fit` with options for the library itself.

    ``snapshots`` shows some iterates during training. Of several processes, only the ranker of the
    first one is fitted.
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
            "held-out data": None if held_out is None else held_out.fingerprint,
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
    """Read a fitted ranker from the folder that it was saved to.

    Parameters
    ----------
    folder
        The folder.
    device
        ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``.

    Returns
    -------
    Ranker

    Raises
    ------
    StorageError
        A folder without a model, or with a damaged one.

    Examples
    --------
    >>> import densirank
    >>> densirank.load("missing")
    Traceback (most recent call last):
    densirank.errors.StorageError: there is no folder missing
    """
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


def _one(vocabulary: Vocabulary, identifier: int | str, what: str) -> int:
    """The index of one id; an unknown id, or several, are an error."""
    found = vocabulary.known(identifier, what)
    if len(found) != 1:
        raise InputError(f"pass one {what} at a time, not {len(found)}")
    return int(found[0])


def checked_seed(seed: int) -> int:
    """A valid seed, or an error."""
    return whole_number("seed", seed, 0)


def checked_temperature(temperature: float) -> float:
    """A temperature that keeps exponentials in range, or an error."""
    return real_number("temperature", temperature, 1e-6, 1e6)


def checked_k(k: int) -> int:
    """The length of a list, or an error."""
    return whole_number("k", k, 1, 2**31)


def checked_lengths(k: int | Iterable[int]) -> list[int]:
    """One length of lists or several, without repetitions, or an error."""
    several = isinstance(k, Iterable) and not isinstance(k, str)
    lengths = list(dict.fromkeys(map(checked_k, k if several else [k])))  # type: ignore[arg-type]
    if not lengths:
        raise InputError("k must be one whole number or several, not none")
    return lengths
