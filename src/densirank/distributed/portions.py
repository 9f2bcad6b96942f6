"""What one process reads of a partition: the pairs of its own users, and nobody else's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from densirank.data.interactions import Interactions
from densirank.distributed.group import World
from densirank.errors import InputError
from densirank.filters.combine import FilterSettings
from densirank.partition.reading import Partition
from densirank.settings import Settings


@dataclass(frozen=True, eq=False)
class Portion(Interactions):
    """A process's users of a partition, numbered from 0, with the items of everybody."""

    partition: Partition | None = None
    first_user: int = 0
    pairs_before: int = 0
    partial: bool = True

    @classmethod
    def read(cls, partition: Partition, world: World) -> Portion:
        """This process's users; all processes have to read theirs at once."""
        users = world.own(partition.n_users)
        own = partition.only(users)
        lengths = torch.cat(world.gathered(torch.tensor([len(own)], device=world.device)))
        return cls(
            own.indptr,
            own.items,
            own.user_ids,
            own.item_ids,
            own.timestamps,
            own.weights,
            own.ordered,
            partition,
            users.start,
            int(lengths[: world.rank].sum()),
        )

    @property
    def origin(self) -> Partition:
        """The partition that this is a portion of."""
        assert self.partition is not None
        return self.partition

    @cached_property
    def fingerprint(self) -> str:
        """That of the partition, which all processes can compare."""
        return self.origin.fingerprint

    @property
    def totals(self) -> tuple[int, int, int]:
        return self.origin.n_users, self.origin.n_items, self.origin.n_pairs

    def whole(self) -> Interactions:
        return self.origin.whole()


def refuse_filters(data: Interactions, settings: Settings) -> None:
    """Say that filters, which multiply everybody's rows, have no portions of them."""
    asked = FilterSettings.of(settings).asked
    if isinstance(data, Portion) and asked:
        raise InputError(
            "a filter beside the vectors needs everybody's rows in one place, and processes that "
            f"share a partition hold their own alone: set {asked[0]}=0, or, where every process "
            "can hold the whole log, fit the log itself"
        )
