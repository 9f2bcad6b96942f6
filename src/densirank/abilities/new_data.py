"""People, items and interactions that come after the fit."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from densirank import frames
from densirank.abilities.fitted import FittedRanker, as_interactions, check_k
from densirank.fitting import FitTask, fit_scorer
from densirank.new_data.explaining import contributions
from densirank.new_data.folding import fold_in, without_users
from densirank.new_data.histories import Histories
from densirank.new_data.updating import continued, merged, update_settings
from densirank.training.callbacks import Callback

if TYPE_CHECKING:
    import polars as pl


class NewData(FittedRanker):
    """Folding people in, updating with more data, and saying what a score owes to a history."""

    folded_in_: Histories
    """Of a ranker that :meth:`fold_in` has made: what of the histories it could use."""

    def fold_in(self, interactions: Any) -> Self:
        """A ranker of the people in these interactions, over the items this one knows.

        Nothing is trained again: a person's vector follows from the items alone, in milliseconds.
        Items the model does not know are ignored. Whoever has no other is left out, so that
        ``recommend(…, unknown="popular")`` lists popular items for them and anything else says
        that they are not known. ``folded_in_`` of the result counts both.
        """
        histories = Histories.of(as_interactions(interactions), self.interactions_.item_ids)
        folded = copy(self)
        folded.interactions_ = histories.known
        folded.scorer_ = fold_in(self._trained(), histories.known)
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
        updated = copy(self)
        task = FitTask(
            self.method,
            update_settings(self.method, self.settings, iterations),
            self.seed,
            self._hardware(),
            data,
            callbacks=callbacks,
        )
        start = continued(self._trained(), self.interactions_, data)
        fitted = fit_scorer(task, start)
        return updated._keep(data, fitted)

    def explain(self, user: int | str, item: int | str, k: int = 5) -> pl.DataFrame:
        """Which of the user's items speak most for an item: ``item_id, contribution``.

        A contribution is what the item's score loses when the past item is taken out of the
        history, both histories being folded in.
        """
        check_k(k)
        data = self.interactions_
        (person,), (index,) = data.user_ids.known(user, "user"), data.item_ids.known(item, "item")
        past, added = contributions(
            self._trained(), data.items_of(int(person)), int(index), data.item_ids
        )
        return frames.contributions(past[:k], added[:k], data)
