"""What only a density can do: probabilities, their calibration, and slates drawn from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from densirank import frames
from densirank.abilities.fitted import FittedRanker, checked_temperature
from densirank.data.vocabulary import Ids
from densirank.errors import InputError
from densirank.evaluation import calibration, reliability
from densirank.ranking.density import Density, check_size, density_blocks
from densirank.ranking.sampling import slate_log_propensities

if TYPE_CHECKING:
    import polars as pl


class Probabilities(FittedRanker):
    """How likely each item is, how sure that is, and draws by it."""

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
        choice = self._choice(k, filter_seen, items, exclude, seed=seed, temperature=temperature)
        people = self.people(self._user_indices(users))
        return frames.recommendations(people, choice, self.interactions_.item_ids)

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
