"""Slates drawn from p(i|u) without replacement, and the exact probability of every draw.

With Gumbel noise of scale one added to the logits, the k highest items in their order are k
successive draws from the softmax over what is left, a Plackett–Luce ranking (Kool et al. 2019).
An item's log-propensity is the log-probability of drawing it at its rank, given the items above
it. It is known exactly, it adds up over a slate to the log-probability of that ordered slate, and
it is what unbiased off-policy estimates need (:mod:`densirank.evaluation.off_policy`). The
probability that an item is anywhere in a slate is a sum over exponentially many slates; no estimate
needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

import numpy as np
import torch
from torch import Tensor

from densirank.ranking.blocks import BlockOptions, score_blocks
from densirank.ranking.topk import Lists, best_columns, spread
from densirank.scores import CalibratedScorer, Scorer


def draw_slates(
    density: CalibratedScorer,
    users: Tensor,
    k: int,
    temperature: float,
    seed: int,
    **barring: Unpack[BlockOptions],
) -> Iterator[Lists]:
    """``k`` draws for each user from p(i|u)^(1/temperature), renormalised, a block at a time.

    The first draw has rank 1. The noise of a user depends on the seed and the user's index alone:
    neither the block size nor the other users change a slate.
    """
    for block, scores in score_blocks(density.scorer, users, **barring):
        logits = density.logits(scores)
        normaliser, entropy = spread(logits)
        policy = _tempered(logits, temperature)
        del logits
        keys, items = best_columns(
            gumbel_noise(block, density.n_items, seed).add_(policy), min(k, density.n_items)
        )
        items = items.masked_fill(torch.isneginf(keys), -1)
        chosen = scores.gather(1, items.clamp(min=0)).masked_fill_(items < 0, -torch.inf)
        yield Lists(block, items, chosen, normaliser, entropy, log_propensities(policy, items))


def slate_log_propensities(
    density: Scorer,
    users: Tensor,
    items: Tensor,
    temperature: float,
    **barring: Unpack[BlockOptions],
) -> Tensor:
    """The log-propensities of given slates, if they were drawn from this density.

    ``items`` is (users, k), -1 where a slate has ended.
    """
    parts, start = [], 0
    for block, scores in score_blocks(density, users, **barring):
        given = items[start : start + len(block)]
        parts.append(log_propensities(_tempered(scores, temperature), given))
        start += len(block)
    return torch.cat(parts)


def log_propensities(logits: Tensor, items: Tensor) -> Tensor:
    """log P(items_r | items_1 … items_{r-1}) of draws by softmax of ``logits``, in float64.

    An item that cannot be drawn has -inf, and so has a place without an item (-1). A row without
    a first item is one from which nothing can be drawn. The logits are overwritten.

    >>> shares = torch.tensor([[0.5, 0.3, 0.2]])
    >>> log_propensities(shares.log(), torch.tensor([[1, 0, -1]])).exp()   # .3, then .5 of .7
    tensor([[0.3000, 0.7143, 0.0000]], dtype=torch.float64)
    """
    ended = items < 0
    places = torch.where(ended, items[:, :1].clamp(min=0), items)
    drawn = logits.gather(1, places).double().masked_fill_(ended, -torch.inf)
    # The mass left at rank r is that of items never drawn plus that of draws from r on. These are
    # sums of positive numbers; subtracting the first draws from the whole would cancel.
    never = torch.logsumexp(logits.scatter_(1, places, -torch.inf), dim=1, keepdim=True).double()
    later = drawn.flip(1).logcumsumexp(dim=1).flip(1)
    return (drawn - torch.logaddexp(never, later)).masked_fill_(torch.isneginf(drawn), -torch.inf)


def _tempered(logits: Tensor, temperature: float) -> Tensor:
    """Logits / temperature, shifted so that the highest of a row is 0, where floats are finest."""
    peak = logits.amax(dim=1, keepdim=True).clamp_(min=torch.finfo(logits.dtype).min)
    return (logits - peak).div_(temperature)


def gumbel_noise(users: Tensor, n_items: int, seed: int) -> Tensor:
    """Standard Gumbel noise, (users, n_items), from one random stream per user.

    It is -log of exponential numbers in double precision: single precision is too coarse for the
    highest of a million numbers.
    """
    noise = torch.empty(len(users), n_items)
    for row, user in zip(noise.numpy(), users.tolist(), strict=True):
        stream = np.random.Generator(np.random.Philox(key=[seed, user]))
        np.negative(np.log(stream.standard_exponential(n_items)), out=row, casting="same_kind")
    return noise.to(users.device)
