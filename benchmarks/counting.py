"""Measured operations, live bytes and bytes sent of some work, counted in torch's dispatcher.

Matrix products, allocations and collectives all pass through torch's dispatcher. Counting there
compares a formula with what actually happened instead of with another formula.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

FACTORS = {"mm": 0, "bmm": 0, "addmm": 1, "addmm_": 1, "baddbmm": 1}
"""The products, and where in their arguments the two factors begin."""

GIVEN = {
    "allreduce_": 0,
    "broadcast_": 0,
    "allgather_": 1,
    "_allgather_base_": 1,
    "reduce_scatter_": 1,
    "_reduce_scatter_base_": 1,
    "alltoall_": 1,
    "alltoall_base_": 1,
}
"""The collectives, and the position of the tensor that a rank sends in their arguments."""


class StepCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts while it is entered; what is ``held`` already counts as live from the start.

    >>> with StepCounter() as counted:
    ...     product = torch.ones(2, 3) @ torch.ones(3, 5)
    >>> counted.operations, counted.peak_bytes
    (60, 124)
    """

    def __init__(self, held: Iterable[Tensor] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations = 0  # two for each multiplication and its addition
        self.peak_bytes = 0
        self.sent_bytes: Counter[str] = Counter()  # by one rank, for each kind of collective
        self.collectives = 0
        self._live: dict[int, int] = {}
        for tensor in held:
            self._see(tensor)

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        name = func.overloadpacket.__name__
        if func.namespace == "c10d" and name in GIVEN:
            self._count_sent(name, args[GIVEN[name]])
        elif name in FACTORS:
            self.operations += _operations(*args[FACTORS[name] :][:2])
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                self._see(tensor)
        return result

    def _see(self, tensor: Tensor) -> None:
        """Count a tensor's memory until it is given back; a view has none of its own."""
        storage = tensor.untyped_storage()
        place = storage._cdata
        if place in self._live:
            return
        self._live[place] = storage.nbytes()
        weakref.finalize(storage, self._live.pop, place)
        self.peak_bytes = max(self.peak_bytes, sum(self._live.values()))

    def _count_sent(self, name: str, given: Any) -> None:
        n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tree_leaves(given))
        ranks = torch.distributed.get_world_size()
        self.collectives += 1
        self.sent_bytes[name.strip("_")] += round(n_bytes * share_sent(name, ranks))


def share_sent(collective: str, ranks: int) -> float:
    """Bytes that a rank sends over a ring for each byte that it gives to a collective.

    >>> share_sent("allreduce_", 4), share_sent("allgather_", 4), share_sent("allgather_", 1)
    (1.5, 3.0, 0.0)
    """
    each: dict[str, Callable[[int], float]] = {
        "allreduce": lambda n: 2 * (n - 1) / n,  # a reduce-scatter and an all-gather
        "allgather": lambda n: n - 1.0,
    }
    for kind, sent in each.items():
        if kind in collective:
            return sent(ranks)
    return (ranks - 1) / ranks  # a reduce-scatter, an all-to-all; a broadcast on the mean


def _operations(left: Tensor, right: Tensor) -> int:
    """Two for each multiplication that a product cannot do without."""
    if left.layout != torch.strided:
        return 2 * left.values().numel() * right.shape[-1]
    return 2 * left.numel() * right.shape[-1]
