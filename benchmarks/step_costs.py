"""What a training step costs a rank: bytes held, operations, bytes touched and bytes sent.

The formulas are those of docs/scale.md, each derived there from the code that does the work. Sizes
are real numbers, because they are divided by the number of ranks and extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass

NUMBER = 4
"""Bytes of a float32."""

INDEX = 8
"""Bytes of the number of a user or an item."""

MOMENTS = {"whitened": 1, "adam": 2}
"""Numbers that an optimiser keeps for a parameter."""

PASSES = 20
"""Times a step reads or writes a number of a table: two gradients made and added up (5), momentum
(5), the look-ahead (3), whitening (4), clipping (3)."""

COPIES = 5
"""Times the vectors of a batch's items exist at once: as they came, their gradients by the risk,
the same scaled, and on their way home as they are sent and as they come."""

CARRIED = 4
"""Times the vectors of a rank's items exist while a layer is carried: as they came, the sums for
them, the same in the order of their owners, and what owners receive."""


@dataclass(frozen=True)
class Case:
    """What is trained: LightGCN, or matrix factorisation where there are no layers."""

    users: int
    items: int
    interactions: int
    batch_users: int  # of all ranks together
    candidates: int  # as many as there are items: the exact risk
    dim: int = 64
    layers: int = 0
    moments: int = 1  # numbers the optimiser keeps for a parameter
    batch_pairs: float | None = None  # of all ranks together, where it is known
    batch_items: float | None = None  # a rank needs the vectors of, where it is known
    near_items: float | None = None  # that a part's users have had, where it is known

    @property
    def positives(self) -> float:
        """P: the pairs of a batch."""
        if self.batch_pairs is not None:
            return self.batch_pairs
        return self.batch_users * self.interactions / self.users

    def in_batch(self, layout: Layout) -> float:
        """J: items whose vectors a rank needs for a batch; at most, no two positives being one."""
        if self.batch_items is not None:
            return self.batch_items
        return min(self.items, self.candidates + self.positives / layout.ranks)

    def near(self, layout: Layout) -> float:
        """V: items that the users of a part of the graph have had; at most, no two being one."""
        if self.near_items is not None:
            return self.near_items
        return min(self.items, self.interactions / layout.parts)


@dataclass(frozen=True)
class Layout:
    """How ranks share the work; nothing but ``ranks`` is what is built, the others would help."""

    ranks: int = 1
    columns: int = 1
    """Ranks of a node that put their users together and propagate d / columns columns each."""
    users_travel: bool = False
    """Whether a batch's users go to the items' owners, and not the items to the users'."""
    wire: int = NUMBER
    """Bytes of a number that is sent between two layers."""
    own_draws: bool = False
    """Whether a rank shuffles only its own users, and no catalogue to sample from."""

    @property
    def parts(self) -> int:
        """Into how many parts the graph is cut."""
        return self.ranks // self.columns


@dataclass(frozen=True)
class Kernels:
    """How a rank does its work: constants of the code."""

    products: int  # of users × candidates × dim that a risk makes
    pair_bytes: int  # of a pair in the sampler and in the data behind it
    edge_bytes: int  # of a pair in the graph, in both directions
    between: int  # of a number between two layers
    beside: int  # read with a neighbour's vector: its number, its weight
    bits: bool  # whether own positives are a bit for every (user, item), twice
    block: int  # most bytes of a block of scores


CPU = Kernels(3, 4 + 8, 4 + 8, 4, 8, False, 48 << 20)
"""risks/fused.py and models/lightgcn.py, in float32; the graph shares its columns with the data."""

GPU = Kernels(3, 8, 16, 4, 8, False, 512 << 20)
"""The same on a GPU, where nothing is shared: what several processes use."""

HALF = Kernels(5, 8, 8, 2, 4, True, 0)
"""risks/tensor_cores.py and models/neighbours.py, which one process uses."""


@dataclass(frozen=True)
class Costs:
    """What a step costs one rank, each sum by what it is for."""

    held: dict[str, float]
    operations: dict[str, float]
    touched: dict[str, float]
    sent: dict[str, float]  # to ranks anywhere
    sent_near: dict[str, float]  # to ranks of the same node
    collectives: int


def costs(case: Case, layout: Layout, kernels: Kernels) -> Costs:
    """Everything that is known about a step."""
    return Costs(
        held(case, layout, kernels),
        operations(case, layout, kernels),
        touched(case, layout, kernels),
        sent(case, layout),
        sent_near(case, layout),
        collectives(case, layout),
    )


def held(case: Case, layout: Layout, kernels: Kernels) -> dict[str, float]:
    """Bytes a rank holds at the most demanding moment of a step."""
    users, items = case.users / layout.ranks, case.items / layout.ranks
    vector = NUMBER * case.dim
    batch_users, batch_items = case.batch_users / layout.ranks, case.in_batch(layout)
    if layout.users_travel:
        batch_users, batch_items = case.batch_users, batch_items / layout.ranks
    block = min(kernels.block, NUMBER * batch_users * case.candidates)
    bits = 2 * batch_users * batch_items / 8 if kernels.bits else 0.0
    added_up = 0.0 if case.layers else max(0.0, items - users)  # two gradients and their sum
    parts = {
        "pairs": kernels.pair_bytes * case.interactions / layout.ranks + 2 * INDEX * users,
        "numbering": 3 * INDEX * _numbered(case.users, layout) + 4 * INDEX * case.items,
        "tables": vector * ((3 + case.moments) * (users + items) + added_up),
        "batch": 2.25 * block + bits + COPIES * vector * (batch_users + batch_items),
    }
    if case.layers:
        edges, nodes = case.interactions / layout.parts, case.users / layout.parts + case.items
        parts["graph"] = kernels.edge_bytes * edges + INDEX * nodes
        parts["propagation"] = 2 * vector * (users + items)
        if layout.ranks > 1:
            parts["propagation"] += CARRIED * vector * case.near(layout) / layout.columns
    return parts


def drawn(case: Case, layout: Layout) -> tuple[float, float]:
    """The number of elements a rank shuffles: (per step, additionally per epoch)."""
    sampled = case.candidates < case.items and not layout.own_draws
    return (float(case.items) if sampled else 0.0), _numbered(case.users, layout)


def _numbered(users: int, layout: Layout) -> float:
    return users / layout.ranks if layout.own_draws else float(users)


def operations(case: Case, layout: Layout, kernels: Kernels) -> dict[str, float]:
    """Multiplications and additions of a rank's matrix products."""
    share = case.dim / layout.ranks
    parts = {
        "risk": 2 * kernels.products * case.batch_users * case.candidates * share,
        "positives": 4 * case.positives * share,
    }
    if case.moments == 1:
        rows = (case.users + case.items) / layout.ranks
        parts["whitening"] = 4 * rows * case.dim**2 + 120 * case.dim**3
    if case.layers:
        parts["propagation"] = 8 * case.layers * case.interactions * share
    return parts


def touched(case: Case, layout: Layout, kernels: Kernels) -> dict[str, float]:
    """Bytes a rank reads and writes where it is memory that it waits for."""
    rows = (case.users + case.items) / layout.ranks
    parts = {"tables": PASSES * NUMBER * case.dim * rows}
    if case.layers:
        columns = case.dim / layout.columns
        edges, nodes = case.interactions / layout.parts, case.users / layout.parts
        nodes += case.near(layout)
        of_edges = 2 * edges * (columns * kernels.between + kernels.beside)
        of_nodes = nodes * columns * (NUMBER + kernels.between)
        parts["propagation"] = 2 * case.layers * (of_edges + of_nodes)
    return parts


def sent(case: Case, layout: Layout) -> dict[str, float]:
    """Bytes a rank sends to ranks anywhere."""
    others = (layout.ranks - 1) / layout.ranks
    vector = NUMBER * case.dim
    parts = {"whitening": 2 * others * 2 * NUMBER * case.dim**2} if case.moments == 1 else {}
    if layout.users_travel:  # as vectors, and as the sums of their densities, once and back
        parts["user vectors"] = others * vector * case.batch_users
        parts["user sums"] = 2 * others * NUMBER * (3 * case.dim + 4) * case.batch_users
    else:
        parts["item ids"] = others * INDEX * case.in_batch(layout)
        parts["item vectors"] = others * vector * case.in_batch(layout)
        parts["item gradients"] = others * vector * case.in_batch(layout)
    if case.layers:
        far = (layout.parts - 1) / layout.parts
        rows = far * layout.wire * case.dim / layout.columns * case.near(layout)
        parts["propagation"] = 2 * case.layers * 2 * rows  # there and back, forward and backward
    return parts


def sent_near(case: Case, layout: Layout) -> dict[str, float]:
    """Bytes a rank sends within its node: its rows as columns, and columns as rows again."""
    if not case.layers:
        return {}
    others = (layout.columns - 1) / layout.columns
    rows = (case.users + case.items) / layout.ranks
    return {"columns": 4 * others * NUMBER * case.dim * rows}


def collectives(case: Case, layout: Layout) -> int:
    """How often a rank waits for others: a batch's items (4), whitening, two flags, the layers."""
    if layout.ranks == 1:
        return 0
    return 6 + (case.moments == 1) + 4 * case.layers
