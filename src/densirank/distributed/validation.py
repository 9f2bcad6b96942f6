"""How well an iterate ranks, each process looking at its own users."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from densirank.data.interactions import Interactions
from densirank.distributed.group import World
from densirank.distributed.shares import Share
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.filters.combine import Filters
from densirank.fit import VALIDATION_K
from densirank.training.loop import Validate


def validator(
    world: World, share: Share, held_out: Interactions | None, filters: Filters
) -> Validate | None:
    """nDCG of everybody's held-out items, of (own user vectors, own item vectors).

    Users are in the order of ranks, so their numbers come together as one process has them, and
    the mean is the same to the last digit. None where nothing is held out.
    """
    if held_out is None:
        return None
    known = share.own.user_ids.indices(held_out.user_ids.ids)[held_out.users] >= 0
    if not world.any(bool(known.any())):
        raise InputError("none of the held-out users is known to the model")
    own = None
    if known.any():
        own = HeldOut(held_out, share.own, world.device, share.item_counts)
    filters = filters.for_histories(share.own)

    def ndcg(user_vectors: Tensor, item_vectors: Tensor) -> float:
        all_items = torch.cat(world.gathered(item_vectors))
        values = np.empty(0)
        if own is not None:
            values = own.evaluate(filters(user_vectors, all_items), VALIDATION_K).per_user["ndcg"]
        everybodys = world.gathered(torch.from_numpy(values).to(world.device))
        return float(torch.cat(everybodys).cpu().numpy().mean())

    return ndcg
