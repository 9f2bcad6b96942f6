"""Evaluation by several processes: the figures of one process, to the last bit.

Users are split where a single process ends one block of scores and begins the next. Every block is
then computed as it always is, ties and rounding included; only the findings are put together, and
sums of whole numbers come out the same in any order.
"""

from __future__ import annotations

import torch

from densirank.distributed.group import World
from densirank.errors import InputError
from densirank.evaluation.held_out import HeldOut
from densirank.evaluation.metrics import Evaluation, Tally
from densirank.ranking.blocks import default_budget, rows_per_block
from densirank.scores import Scorer


def evaluate_together(
    held_out: HeldOut, scorer: Scorer, k: int, world: World, budget_bytes: int | None = None
) -> Evaluation:
    """What ``held_out.evaluate(scorer, k)`` gives, each process ranking for its share of users.

    A process for which no block of users is left ranks for nobody.
    """
    budget = default_budget(scorer.device) if budget_bytes is None else budget_bytes
    rows = rows_per_block(scorer.n_items, budget)
    blocks = world.own(-(-len(held_out.users) // rows))
    users = held_out.users[blocks.start * rows : blocks.stop * rows]
    own = held_out.tally(scorer, users, k, budget)
    listed = world.sum_(own.listed.to(torch.int32))
    return Tally(
        torch.cat(world.gathered(own.users)),
        torch.cat(world.gathered(own.per_user)),
        listed > 0,
        world.sum_(own.popularity),
    ).evaluation(k)


def require_same(world: World, what: str, fingerprint: str) -> None:
    """Refuse to go on where processes have been given different things to work on."""
    if world.size == 1:
        return
    for rank, theirs in enumerate(world.texts(what, fingerprint)):
        if theirs != fingerprint:
            raise InputError(
                f"process {world.rank} and process {rank} were given a different {what}: give all "
                "the same"
            )
