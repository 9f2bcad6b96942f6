"""Recommendations for all users on a Ray cluster: the same parts, made by Ray Data's workers.

A dataset of the missing parts goes through a pool of workers, each of which loads the model once
and writes parts to the folder that all nodes see. A part is whole or absent, and the same whoever
makes it, so Ray may retry after losing a worker, and a stopped run can be resumed.
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
    """One worker: a model in memory, and parts made by it.

    Errors that a person can fix are returned as a sentence: Ray would wrap them in its own.
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
    """Write the file and return its number of rows; ``on_part`` is told how many parts exist.

    The cluster is that of ``RAY_ADDRESS``, or one that is started here and ended with the run.
    There are as many workers as the cluster has CPUs, or GPUs if the model is to run on them,
    unless ``workers`` says otherwise.
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
    """How many workers to start on a cluster with these resources; each takes one CPU or GPU.

    >>> pool_size({"CPU": 8.0}, "CPU", None)
    8
    """
    count = int(there.get(resource, 0))
    if count < (workers or 1):
        raise InputError(
            f"the Ray cluster has {count} {resource}s and every worker takes one: too few for "
            f"{workers or 1}"
        )
    return workers or count


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray, connected, with its own messages turned down."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise InputError(
            "--engine ray needs the package ray: pip install 'densirank[ray]'"
        ) from error
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # what is run is told to nobody
    try:
        ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        yield ray
    except ray.exceptions.RayError as error:
        first_line = str(error).strip().partition("\n")[0]
        raise DensirankError(f"Ray has given up ({first_line}); the parts made are kept") from error
    finally:
        ray.shutdown()
