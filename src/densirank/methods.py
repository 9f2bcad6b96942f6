"""The registry: every method is one line, a model × a risk × a constraint and its own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from densirank.errors import InputError
from densirank.settings import RATES, Optimiser, Settings, check_keys

OPTIMISERS: Mapping[str, Optimiser] = {"lightgcn": "whitened"}
"""Which optimiser a model starts with where it is not Adam. Free vectors that move in all
directions at the same pace learn a small data set by heart, where Adam finds what is shared first;
a graph shares anyway."""


@dataclass(frozen=True)
class Method:
    """How f_u(i) is made (model), what is minimised (risk), and n̄ of the norm clipping.

    A method without a risk has a closed form (or a library that finds it): it is made, not trained.
    """

    name: str
    model: str
    risk: str | None
    max_norm: float | None
    summary: str
    defaults: Mapping[str, object] = field(default_factory=dict)  # where they are not the usual

    def settings(self, **overrides: object) -> Settings:
        """The method's defaults with the caller's choices on top."""
        check_keys(set(overrides))
        given = dict(self.defaults) | overrides
        optimiser = given.get("optimiser", OPTIMISERS.get(self.model, "adam"))
        usual = {
            "max_norm": self.max_norm,
            "optimiser": optimiser,
            "learning_rate": RATES.get(str(optimiser), 1.0),
        }
        return Settings(**(usual | given))  # type: ignore[arg-type]


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("wd-lgcn", "lightgcn", "wd", 4.5, "LightGCN, WD risk, norm clipping"),
        Method("pde-lgcn", "lightgcn", "pde", 4.5, "LightGCN, PDE risk, norm clipping"),
        Method("mle-lgcn", "lightgcn", "mle", 4.5, "LightGCN, likelihood, norm clipping"),
        Method("wd-mf", "mf", "wd", 2.5, "matrix factorisation, WD risk, norm clipping"),
        Method("pde-mf", "mf", "pde", 2.5, "matrix factorisation, PDE risk, norm clipping"),
        Method("mle-mf", "mf", "mle", 2.5, "matrix factorisation, likelihood, norm clipping"),
        Method("wd-lgcn-unclipped", "lightgcn", "wd", None, "LightGCN, WD risk"),
        Method("pde-lgcn-unclipped", "lightgcn", "pde", None, "LightGCN, PDE risk"),
        Method("wd-mf-unclipped", "mf", "wd", None, "matrix factorisation, WD risk"),
        Method("pde-mf-unclipped", "mf", "pde", None, "matrix factorisation, PDE risk"),
        Method(
            "ngcf",
            "ngcf",
            "pairwise-uniform",
            None,
            "NGCF, pairwise risk, uniform negatives",
            {"candidates": "all", "dropout": 0.1, "learning_rate": 0.005},
        ),
        Method(
            "mult-vae",
            "mult-vae",
            "multinomial",
            None,
            "variational auto-encoder, likelihood",
            {"candidates": "all", "dim": 200, "dropout": 0.5, "l2": 0.2, "learning_rate": 0.001},
        ),
        Method(
            "enmf",
            "enmf",
            "squared",
            None,
            "ENMF, squared risk over all pairs",
            {"candidates": "all", "dropout": 0.3, "l2": 0.0},
        ),
        Method(
            "dregn-cf",
            "lightgcn-loops",
            "ratio",
            None,
            "LightGCN, ranking uLSIF risk",
            {"optimiser": "adam", "learning_rate": 0.01, "l2": 0.06},
        ),
        *(
            Method(
                name, model, f"pairwise-{sampler}", max_norm, summary, {"candidates": candidates}
            )
            for name, model, sampler, max_norm, candidates, summary in (
                ("lightgcn", "lightgcn", "uniform", None, "all", "LightGCN, uniform negatives"),
                (
                    "lightgcn-popular",
                    "lightgcn",
                    "popular",
                    None,
                    "batch",
                    "LightGCN, popular negatives",
                ),
                ("lightgcn-dns", "lightgcn", "dynamic", None, "all", "LightGCN, dynamic negatives"),
                (
                    "lightgcn-ans",
                    "lightgcn",
                    "adaptive",
                    None,
                    "batch",
                    "LightGCN, adaptive negatives",
                ),
                (
                    "lightgcn-ans-nc",
                    "lightgcn",
                    "adaptive",
                    4.5,
                    "batch",
                    "LightGCN, adaptive negatives, norm clipping",
                ),
                ("bpr-mf", "mf", "uniform", None, "all", "matrix factorisation, uniform negatives"),
                (
                    "bpr-mf-popular",
                    "mf",
                    "popular",
                    None,
                    "batch",
                    "matrix factorisation, popular negatives",
                ),
                (
                    "bpr-mf-dns",
                    "mf",
                    "dynamic",
                    None,
                    "all",
                    "matrix factorisation, dynamic negatives",
                ),
                (
                    "bpr-mf-ans",
                    "mf",
                    "adaptive",
                    None,
                    "batch",
                    "matrix factorisation, adaptive negatives",
                ),
            )
        ),
        Method("irgan", "mf-generator", "irgan", None, "a generator that fools a discriminator"),
        Method("irwgan", "mf-critic", "irwgan", 2.5, "a critic of a generator, norm clipping"),
        Method("popularity", "popularity", None, None, "most popular items, the same for all"),
    )
}


def method_named(name: str) -> Method:
    """The method of that name, or a sentence that lists the names there are."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}")
    return METHODS[name]
