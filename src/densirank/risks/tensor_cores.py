"""The density risks on a GPU's tensor cores: half-precision products, float32 sums, two passes.

The user pass walks over the candidates once and keeps, like a running softmax, the peak of the
scores and four sums relative to it. With w = exp(f − peak) and x = f − peak these are Σw, Σwx,
Σw e and Σwx e, and they are all that E_p[f] and the user's gradient Σ p (1 + f − E) e need. The
item pass knows every user's log-partition by then and needs one walk over the users. Scores exist
only in registers; a bit for each (user, item) says which items are the user's own positives, so
WD's p_f is exactly zero there.

Vectors are rounded to float16 for the products: its ten bits of fraction are eight times finer
than bfloat16's, and its narrow range is no danger here, because weights are bounded: w ≤ 1,
−1/e ≤ wx ≤ 0, and p (1 + f − E) ≤ 1 + log(candidates). They are scaled up before they are rounded,
so that small ones keep their bits.

With a base density w = exp(f + log p0 − peak), peak being the highest of f + log p0; the bounds of
wx then widen by the spread of log p0. Where positives have weights a bit is not enough: the item
pass leaves them out, and a pass over the positives in the order of their items puts them in.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from densirank.risks.base import differentiable
from densirank.risks.positive_gradients import subtract_positives
from densirank.risks.positives import Positives

WORD = 64
"""Items a word of bits holds: the width of a tile of scores."""

ROWS = 64
"""Users (items) of a tile of scores: what ran fastest on an H200."""

PROGRAMS = 512
"""Programs that keep a large GPU busy in the user pass."""

LOG2_SCALE = tl.constexpr(11.0)
SCALE = tl.constexpr(2.0**11)
"""Weights are multiplied by this before they become float16; the largest stays below 65,504."""

LOG2_E = tl.constexpr(1.4426950408889634)
"""Scores are kept in units of log 2: exp2 is what the hardware has."""

MASKED = tl.constexpr(-1e20)
"""A score whose exp is zero as soon as there is another, while 0 × it stays zero."""


def pde_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """R̂ of Eq. (risk-estimator); :func:`densirank.risks.density.pde_risk` in half precision."""
    return _apply(user_vectors, item_vectors, positives, penalised=True, over_unobserved=False)


def wd_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """R̂_WD of Eq. (risk-estimator-ds); :func:`densirank.risks.density.wd_risk`, likewise."""
    return _apply(user_vectors, item_vectors, positives, penalised=True, over_unobserved=True)


def mle_risk(user_vectors: Tensor, item_vectors: Tensor, positives: Positives) -> Tensor:
    """Softmax maximum likelihood; :func:`densirank.risks.density.mle_risk`, likewise."""
    return _apply(user_vectors, item_vectors, positives, penalised=False, over_unobserved=False)


def _apply(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    *,
    penalised: bool,
    over_unobserved: bool,
) -> Tensor:
    def compute(users: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        terms, *gradients = _risk_and_gradients(users, items, positives, penalised, over_unobserved)
        return positives.user_mean(terms), gradients[0], gradients[1]

    return differentiable(compute, user_vectors, item_vectors)


def _risk_and_gradients(
    user_vectors: Tensor,
    item_vectors: Tensor,
    positives: Positives,
    penalised: bool,
    over_unobserved: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(each user's term of the risk, gradient of the users, gradient of the items)."""
    n_users, dim = user_vectors.shape
    n_items, device = len(item_vectors), user_vectors.device
    users, items = user_vectors.half(), item_vectors.half()
    n_candidates = torch.as_tensor(positives.n_candidates, dtype=torch.int32, device=device)
    item_words, user_words = triton.cdiv(n_items, WORD), triton.cdiv(n_users, WORD)
    width = max(16, triton.next_power_of_2(dim))
    kind = {"PENALISED": penalised, "OVER_UNOBSERVED": over_unobserved}
    shape = {"DIM": dim, "WIDTH": width, "WORD": WORD}
    based, weighted = positives.log_base is not None, positives.weights is not None
    nothing = user_vectors.new_empty(0)
    log2_base, weights, user_shares = nothing, nothing, nothing
    if positives.log_base is not None:
        log2_base = positives.log_base.float() * LOG2_E.value
    if positives.weights is not None:
        weights = positives.weights.float()
    if positives.user_weights is not None:
        largest = positives.user_weights.max().float()
        user_shares = positives.user_weights.float() / largest  # at most 1, for float16's sake
    launch = {"num_warps": 4 if width <= 64 else 8, "num_stages": 3 if width <= 128 else 2}

    # Bits: word w of user u (item i) has the own items (users) 64 w … 64 w + 63.
    own_items = torch.zeros(
        item_words if over_unobserved else 0, n_users, dtype=torch.int64, device=device
    )
    own_users = torch.zeros(user_words, n_items, dtype=torch.int64, device=device)
    mean_positives = torch.empty_like(user_vectors)
    _read_positives[(n_users,)](
        positives.indptr, positives.columns, weights, item_vectors, own_items, own_users,
        mean_positives, n_users, n_items,
        **shape, OVER_UNOBSERVED=over_unobserved, WEIGHTED=weighted, CHUNK=16, num_warps=2,
    )  # fmt: skip

    user_blocks = triton.cdiv(n_users, ROWS)
    splits = max(1, min(triton.cdiv(PROGRAMS, user_blocks), triton.cdiv(item_words, 8)))
    sums = users.new_empty(3, splits, n_users, dtype=torch.float32)
    vector_sums = users.new_empty(1 + penalised, splits, n_users, dim, dtype=torch.float32)
    _user_pass[(user_blocks, splits)](
        users, items, own_items, log2_base, n_candidates, sums, vector_sums,
        n_users, triton.cdiv(item_words, splits), splits,
        **shape, **kind, BASED=based, USERS=ROWS, **launch,
    )  # fmt: skip

    terms = users.new_empty(n_users, dtype=torch.float32)
    statistics = users.new_empty(4, n_users, dtype=torch.float32)
    user_gradient = torch.empty_like(user_vectors)
    _combine[(n_users,)](
        user_vectors, mean_positives, positives.indptr, user_shares, sums, vector_sums, terms,
        statistics, user_gradient, n_users, splits, DIM=dim, WIDTH=width, PENALISED=penalised,
        WEIGHTED=weighted, USERS_WEIGHTED=positives.user_weights is not None, num_warps=1,
    )  # fmt: skip

    item_gradient = torch.empty_like(item_vectors)
    _item_pass[(triton.cdiv(n_items, ROWS),)](
        users, items, own_users, log2_base, n_candidates, statistics, item_gradient,
        n_users, n_items, **shape, **kind, BASED=based,
        USERS_WEIGHTED=positives.user_weights is not None, ITEMS=ROWS, **launch,
    )  # fmt: skip
    if weighted:
        subtract_positives(positives, user_vectors, weights, statistics[3], item_gradient)
    if positives.user_weights is not None:
        user_gradient *= largest
        item_gradient *= largest
    return terms, user_gradient, item_gradient


@triton.jit
def _read_positives(
    indptr, columns, weights, items, own_items, own_users, means,
    n_users, n_items, DIM: tl.constexpr, WIDTH: tl.constexpr, WORD: tl.constexpr,
    OVER_UNOBSERVED: tl.constexpr, WEIGHTED: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """One user: set the bits of the own positives, and average their vectors."""
    user = tl.program_id(0).to(tl.int64)
    start, stop = tl.load(indptr + user), tl.load(indptr + user + 1)
    along = tl.arange(0, WIDTH)
    one = tl.full([CHUNK], 1, tl.int64)
    total = tl.zeros([CHUNK, WIDTH], tl.float32)
    for first in range(start, stop, CHUNK):
        entries = first + tl.arange(0, CHUNK)
        there = entries < stop
        rows = tl.load(columns + entries, mask=there, other=0).to(tl.int64)
        users_word = own_users + (user // WORD) * n_items + rows
        tl.atomic_or(users_word, one << (user % WORD), mask=there, sem="relaxed")
        if OVER_UNOBSERVED:
            items_word = own_items + (rows // WORD) * n_users + user
            tl.atomic_or(items_word, one << (rows % WORD), mask=there, sem="relaxed")
        vectors = tl.load(
            items + rows[:, None] * DIM + along[None, :],
            mask=there[:, None] & (along < DIM)[None, :],
            other=0.0,
        )
        if WEIGHTED:
            vectors *= tl.load(weights + entries, mask=there, other=0.0)[:, None]
        total += vectors
    mean = tl.sum(total, 0)
    if not WEIGHTED:
        mean = mean / (stop - start)
    tl.store(means + user * DIM + along, mean, mask=along < DIM)


@triton.jit
def _bits(words, inside):
    """Bit j of every word, (rows, 64), by 32-bit shifts: those take a GPU one instruction."""
    low, high = words.to(tl.int32), (words >> 32).to(tl.int32)
    half = tl.where((inside < 32)[None, :], low[:, None], high[:, None])
    return (half >> (inside & 31)[None, :]) & 1


@triton.jit
def _user_pass(
    users, items, own_items, log2_base, n_candidates, sums, vector_sums,
    n_users, words_per_split, splits,
    DIM: tl.constexpr, WIDTH: tl.constexpr, WORD: tl.constexpr,
    PENALISED: tl.constexpr, OVER_UNOBSERVED: tl.constexpr, BASED: tl.constexpr,
    USERS: tl.constexpr,
):  # fmt: skip
    """A block of users against a split of the candidates: peak, Σw, Σwx, Σw e, Σwx e."""
    split = tl.program_id(1)
    rows = tl.program_id(0) * USERS + tl.arange(0, USERS)
    along = tl.arange(0, WIDTH)
    inside = tl.arange(0, WORD)
    some_users = (rows < n_users)[:, None] & (along < DIM)[None, :]
    within = rows.to(tl.int64)[:, None] * DIM + along[None, :]
    user_tile = tl.load(users + within, mask=some_users, other=0.0)
    count = tl.load(n_candidates)

    peak = tl.full([USERS], MASKED, tl.float32)
    weight = tl.zeros([USERS], tl.float32)
    weighted = tl.zeros([USERS], tl.float32)
    centre = tl.zeros([USERS, WIDTH], tl.float32)
    moment = tl.zeros([USERS, WIDTH], tl.float32)
    last = tl.minimum((split + 1) * words_per_split, tl.cdiv(count, WORD))
    for word in range(split * words_per_split, last):
        columns = word * WORD + inside
        some_items = (columns < count)[:, None] & (along < DIM)[None, :]
        tile = items + tl.cast(word, tl.int64) * WORD * DIM  # 32 bits would not reach all items
        item_tile = tl.load(
            tile + inside[:, None] * DIM + along[None, :], mask=some_items, other=0.0
        )
        scores = tl.dot(user_tile, tl.trans(item_tile)) * LOG2_E
        scores = tl.where((columns < count)[None, :], scores, MASKED)
        if OVER_UNOBSERVED:
            place = tl.cast(word, tl.int64) * n_users + rows
            words = tl.load(own_items + place, mask=rows < n_users, other=0)
            scores = tl.where(_bits(words, inside) == 0, scores, MASKED)
        logits = scores
        if BASED:
            base = tl.load(log2_base + columns, mask=columns < count, other=0.0)
            logits = scores + base[None, :]
        new_peak = tl.maximum(peak, tl.max(logits, 1))
        fall = peak - new_peak
        shrink = tl.exp2(fall)
        x = scores - new_peak[:, None]
        w = tl.exp2(logits - new_peak[:, None] + LOG2_SCALE)
        if PENALISED:
            wx = w * x
            weighted = shrink * (weighted + fall * weight) + tl.sum(wx, 1)
            moment = shrink[:, None] * (moment + fall[:, None] * centre)
            moment = tl.dot(wx.to(tl.float16), item_tile, moment)
        weight = shrink * weight + tl.sum(w, 1)
        centre = tl.dot(w.to(tl.float16), item_tile, shrink[:, None] * centre)
        peak = new_peak

    place = split * n_users + rows
    tl.store(sums + place, peak, mask=rows < n_users)
    tl.store(sums + splits * n_users + place, weight, mask=rows < n_users)
    tl.store(sums + 2 * splits * n_users + place, weighted, mask=rows < n_users)
    vectors = vector_sums + place.to(tl.int64)[:, None] * DIM + along[None, :]
    tl.store(vectors, centre, mask=some_users)
    if PENALISED:
        further = tl.cast(splits, tl.int64) * n_users * DIM
        tl.store(vectors + further, moment, mask=some_users)


@triton.jit
def _combine(
    user_vectors, mean_positives, indptr, user_weights, sums, vector_sums, terms, statistics,
    user_gradient, n_users, splits,
    DIM: tl.constexpr, WIDTH: tl.constexpr, PENALISED: tl.constexpr,
    WEIGHTED: tl.constexpr, USERS_WEIGHTED: tl.constexpr,
):  # fmt: skip
    """One user: the splits' sums brought together into the term of the risk and its gradient."""
    user = tl.program_id(0).to(tl.int64)
    along = tl.arange(0, WIDTH)
    there = along < DIM
    peak = tl.load(sums + user)
    for split in range(1, splits):
        peak = tl.maximum(peak, tl.load(sums + split * n_users + user))

    weight = 0.0
    weighted = 0.0
    centre = tl.zeros([WIDTH], tl.float32)
    moment = tl.zeros([WIDTH], tl.float32)
    for split in range(splits):
        place = split * n_users + user
        fall = tl.load(sums + place) - peak
        shrink = tl.exp2(fall)
        own_weight = tl.load(sums + splits * n_users + place)
        own_vector = vector_sums + place * DIM + along
        own_centre = tl.load(own_vector, mask=there, other=0.0)
        if PENALISED:
            own_weighted = tl.load(sums + 2 * splits * n_users + place)
            weighted += shrink * (own_weighted + fall * own_weight)
            further = tl.cast(splits, tl.int64) * n_users * DIM
            own_moment = tl.load(own_vector + further, mask=there, other=0.0)
            moment += shrink * (own_moment + fall * own_centre)
        weight += shrink * own_weight
        centre += shrink * own_centre

    none_left = peak == MASKED  # the user has had every candidate: no density to speak of
    partition = tl.where(none_left, float("inf"), weight)
    log2_partition = peak + tl.log2(partition) - LOG2_SCALE
    mean_positive = tl.load(mean_positives + user * DIM + along, mask=there, other=0.0)
    vector = tl.load(user_vectors + user * DIM + along, mask=there, other=0.0)
    if PENALISED:
        fallen = weighted / partition / LOG2_E
        second_term = fallen + peak / LOG2_E
        gradient = ((1.0 - fallen) * centre + moment / LOG2_E) / partition
    else:
        second_term = log2_partition / LOG2_E
        gradient = centre / partition
    second_term = tl.where(none_left, 0.0, second_term)
    tl.store(terms + user, second_term - tl.sum(vector * mean_positive, 0))
    user_weight = 1.0
    if USERS_WEIGHTED:
        user_weight = tl.load(user_weights + user)
    gradient = (gradient - mean_positive) * (user_weight / n_users)
    tl.store(user_gradient + user * DIM + along, gradient, mask=there)
    positive_share = 0.0  # of an own positive in the item pass
    if not WEIGHTED:
        positive_share = SCALE / (tl.load(indptr + user + 1) - tl.load(indptr + user))
    tl.store(statistics + user, -(log2_partition - LOG2_SCALE))
    tl.store(statistics + n_users + user, 1.0 - second_term)
    tl.store(statistics + 2 * n_users + user, positive_share)
    tl.store(statistics + 3 * n_users + user, user_weight / n_users)


@triton.jit
def _item_pass(
    users, items, own_users, log2_base, n_candidates, statistics, item_gradient, n_users, n_items,
    DIM: tl.constexpr, WIDTH: tl.constexpr, WORD: tl.constexpr,
    PENALISED: tl.constexpr, OVER_UNOBSERVED: tl.constexpr, BASED: tl.constexpr,
    USERS_WEIGHTED: tl.constexpr, ITEMS: tl.constexpr,
):  # fmt: skip
    """A block of items against all users: Σ_u (∂risk_u/∂f_u(i)) e_u, positives included."""
    inside = tl.arange(0, WORD)
    rows = tl.program_id(0) * ITEMS + tl.arange(0, ITEMS)
    along = tl.arange(0, WIDTH)
    some_items = (rows < n_items)[:, None] & (along < DIM)[None, :]
    within = rows.to(tl.int64)[:, None] * DIM + along[None, :]
    item_tile = tl.load(items + within, mask=some_items, other=0.0)
    candidate = rows < tl.load(n_candidates)
    if BASED:
        base = tl.load(log2_base + rows, mask=candidate, other=0.0)
    gradient = tl.zeros([ITEMS, WIDTH], tl.float32)
    for word in range(tl.cdiv(n_users, WORD)):
        columns = word * WORD + inside
        there = columns < n_users
        tile = users + tl.cast(word, tl.int64) * WORD * DIM
        user_tile = tl.load(
            tile + inside[:, None] * DIM + along[None, :],
            mask=there[:, None] & (along < DIM)[None, :],
            other=0.0,
        )
        scores = tl.dot(item_tile, tl.trans(user_tile)) * LOG2_E  # (items, users)
        scores = tl.where(candidate[:, None], scores, MASKED)
        minus_log = tl.load(statistics + columns, mask=there, other=float("-inf"))
        logits = scores
        if BASED:
            logits = scores + base[:, None]
        slope = tl.exp2(logits + minus_log[None, :])
        if PENALISED:
            constant = tl.load(statistics + n_users + columns, mask=there, other=0.0)
            slope = slope * (scores / LOG2_E + constant[None, :])
        share = tl.load(statistics + 2 * n_users + columns, mask=there, other=0.0)
        place = tl.cast(word, tl.int64) * n_items + rows
        own = _bits(tl.load(own_users + place, mask=rows < n_items, other=0), inside) == 1
        if OVER_UNOBSERVED:
            slope = tl.where(own, -share[None, :], slope)
        else:
            slope = tl.where(own, slope - share[None, :], slope)
        if USERS_WEIGHTED:
            user_share = tl.load(statistics + 3 * n_users + columns, mask=there, other=0.0)
            slope = slope * (user_share * n_users)[None, :]
        gradient = tl.dot(slope.to(tl.float16), user_tile, gradient)
    gradient = gradient / SCALE / n_users
    tl.store(item_gradient + within, gradient, mask=some_items)
