"""Recommendations for all users on a Ray cluster, computed by workers of Ray Data.

A dataset of the missing parts is mapped over a pool of workers, each of which loads the model once
and writes parts to a shared folder. A part is either complete or absent and does not depend on the
worker that writes it, so Ray can retry after losing a worker, and an interrupted run can be
resumed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from densirank.errors import DensirankError, InputError
from densirank.parallel.recommend_all import Order, Parts


class PartMaker:
    """A worker that holds the model in memory and writes parts.

    Errors that the user can fix are returned as messages, because Ray would wrap exceptions.
    """

    def __init__(self, order: Order) -> None:
        self._order = order

    def __call__(self, block: dict[str, Any]) -> dict[str, Any]:
        try:
            for number in block["part"].tolist():
                self._parts.make(number)
        except DensirankError as error:
            return {"trouble": np.array([str(error)])}
        return {"trouble": np.array([""] * len(block["part"]))}

    @cached_property
    def _parts(self) -> Parts:
        parts = self._order.load()
        parts.check_folder("a worker of Ray")
        return parts


def run_on_ray(
    order: Order,
    parts: Parts,
    workers: int | None = None,
    on_part: Callable[[int], None] = lambda done: None,
) -> int:
    """Write the file and return its number of rows.

    ``on_part`` is called with the number of complete parts. ``RAY_ADDRESS`` selects the cluster;
    without it, a local one is started and shut down with the run. The default of ``workers`` is the
    number of CPUs of the cluster, or of GPUs if the model runs on a GPU.
    """
    if parts.parts_done() < parts.n_parts:
        with _cluster() as ray:
            resource = "GPU" if parts.ranker.scorer_.device.type == "cuda" else "CPU"
            pool = pool_size(ray.cluster_resources(), resource, workers)
            parts.claim_folder()
            missing = parts.missing()
            made = ray.data.from_items([{"part": number} for number in missing]).map_batches(
                PartMaker,
                fn_constructor_args=(order,),
                batch_size=1,
                compute=ray.data.ActorPoolStrategy(size=min(pool, len(missing))),
                **{f"num_{resource.lower()}s": 1},
            )
            for done, row in enumerate(made.iter_rows(), start=parts.n_parts - len(missing) + 1):
                if row["trouble"]:
                    raise InputError(row["trouble"])
                on_part(done)
    return parts.finish()


def pool_size(there: Mapping[str, float], resource: str, workers: int | None) -> int:
    """The number of workers for a cluster with these resources; each takes one CPU or GPU.

    >>> pool_size({"CPU": 8.0}, "CPU", None)
    8
    """
    count = int(there.get(resource, 0))
    if count < (workers or 1):
        raise InputError(
            f"the Ray cluster has {count} {resource}s and each worker takes one: too few for "
            f"{workers or 1}; lower --workers, or add nodes"
        )
    return workers or count


@contextmanager
def _cluster() -> Iterator[Any]:
    """Connect to Ray, with its log messages reduced to errors."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(
            "--engine ray needs the package ray: pip install 'densirank[ray]'"
        ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage reports
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        yield ray
    except ray.exceptions.RayError as error:
        first_line = str(error).strip().partition("\n")[0]
        raise DensirankError(f"Ray failed ({first_line}); complete parts are kept") from error
    finally:
        ray.shutdown()
