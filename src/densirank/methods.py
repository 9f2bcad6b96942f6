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
    timed: Mapping[str, object] = field(default_factory=dict)  # on top, where an order is known

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

    def settings_for(self, ordered: bool, **overrides: object) -> Settings:
        """The same for data of which an order is known, or is not."""
        return self.settings(**{**(self.timed if ordered else {}), **overrides})


UNIFORM: Mapping[str, object] = {
    "optimiser": "adam",
    "candidates": "all",
    "negatives": 100,
    "iterations": 1000,
}
ADAPTIVE: Mapping[str, object] = {
    "optimiser": "adam",
    "users_per_batch": 4096,
    "negatives": 20,
    "iterations": 1000,
}
"""What pairwise methods start with: a negative drawn from all items says little, so it takes many;
one drawn by the ranker or among the batch's positives says more."""

GENERAL: Mapping[str, object] = {
    "dim": 256,
    "users_per_batch": 5000,
    "candidates": "all",
    "iterations": 250,
    "l2": 0.05,
    "base_exponent": 0.1,
    "user_exponent": 0.75,
    "filter_weight": 0.1,
}
"""The density in its general form: a base density, weights of users, an item–item filter beside."""
BLIND: Mapping[str, object] = {
    **GENERAL,
    "base_exponent": 0.25,
    "l2": 0.04,
    "filter_weight": 0.05,
    "low_pass_weight": 0.05,
}
"""Without an order of time a second filter helps, the smooth one, and less of the first."""
TIMED: Mapping[str, object] = {
    "recency": 2.0,
    "filter_weight": 0.2,
    "filter_recency": 3.0,
    "filter_span": 8,
}
"""What an order of time adds: recent items count more, and those near in time belong together."""

METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("wd-lgcn", "lightgcn", "wd", 4.5, "LightGCN, WD risk, norm clipping"),
        Method("pde-lgcn", "lightgcn", "pde", 4.5, "LightGCN, PDE risk, norm clipping"),
        Method("mle-lgcn", "lightgcn", "mle", 4.5, "LightGCN, likelihood, norm clipping"),
        Method("wd-mf", "mf", "wd", 2.5, "matrix factorisation, WD risk, norm clipping"),
        Method("pde-mf", "mf", "pde", 2.5, "matrix factorisation, PDE risk, norm clipping"),
        Method("mle-mf", "mf", "mle", 2.5, "matrix factorisation, likelihood, norm clipping"),
        Method(
            "densirank",
            "lightgcn",
            "wd",
            4.5,
            "wd-lgcn with base density, user weights and item filter; recent items count more",
            GENERAL,
            TIMED,
        ),
        Method(
            "densirank-blind",
            "lightgcn",
            "wd",
            4.5,
            "the same, blind to the order of time, with a low-pass filter too",
            BLIND,
        ),
        Method(
            "densirank-blind-pde",
            "lightgcn",
            "pde",
            4.5,
            "the same with the PDE risk",
            BLIND,
        ),
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
            {**UNIFORM, "learning_rate": 0.02, "l2": 0.01, "dropout": 0.1},
        ),
        Method(
            "mult-vae",
            "mult-vae",
            "multinomial",
            None,
            "variational auto-encoder, likelihood",
            {
                "candidates": "all",
                "dim": 200,
                "dropout": 0.7,
                "l2": 1.0,
                "learning_rate": 0.003,
                "iterations": 1000,
            },
        ),
        Method(
            "enmf",
            "enmf",
            "squared",
            None,
            "ENMF, squared risk over all pairs",
            {"candidates": "all", "dropout": 0.3, "l2": 0.0, "iterations": 500},
        ),
        Method(
            "dregn-cf",
            "lightgcn-loops",
            "ratio",
            None,
            "LightGCN, ranking uLSIF risk",
            {"learning_rate": 0.02, "l2": 0.04, "iterations": 300},
        ),
        Method(
            "lightgcn",
            "lightgcn",
            "pairwise-uniform",
            None,
            "LightGCN, uniform negatives",
            {**UNIFORM, "l2": 0.001},
        ),
        Method(
            "lightgcn-popular",
            "lightgcn",
            "pairwise-popular",
            None,
            "LightGCN, popular negatives",
            {**ADAPTIVE, "l2": 0.001},
        ),
        Method(
            "lightgcn-dns",
            "lightgcn",
            "pairwise-dynamic",
            None,
            "LightGCN, dynamic negatives",
            {**UNIFORM, "l2": 0.003},
        ),
        Method(
            "lightgcn-ans",
            "lightgcn",
            "pairwise-adaptive",
            None,
            "LightGCN, adaptive negatives",
            {**ADAPTIVE, "learning_rate": 0.02, "l2": 0.03},
        ),
        Method(
            "lightgcn-ans-nc",
            "lightgcn",
            "pairwise-adaptive",
            4.0,
            "LightGCN, adaptive negatives, norm clipping",
            {**ADAPTIVE, "l2": 0.01},
        ),
        Method(
            "bpr-mf",
            "mf",
            "pairwise-uniform",
            None,
            "matrix factorisation, uniform negatives",
            {**UNIFORM, "l2": 0.05},
        ),
        Method(
            "bpr-mf-popular",
            "mf",
            "pairwise-popular",
            None,
            "matrix factorisation, popular negatives",
            {**ADAPTIVE, "l2": 0.05},
        ),
        Method(
            "bpr-mf-dns",
            "mf",
            "pairwise-dynamic",
            None,
            "matrix factorisation, dynamic negatives",
            {**UNIFORM, "l2": 0.05},
        ),
        Method(
            "bpr-mf-ans",
            "mf",
            "pairwise-adaptive",
            None,
            "matrix factorisation, adaptive negatives",
            {**ADAPTIVE, "l2": 0.3},
        ),
        Method("irgan", "mf-generator", "irgan", None, "a generator that fools a discriminator"),
        Method("irwgan", "mf-critic", "irwgan", 2.5, "a critic of a generator, norm clipping"),
        Method("popularity", "popularity", None, None, "most popular items, the same for all"),
        Method(
            "itemknn", "itemknn", None, None, "cosines of items, the nearest of each", {"l2": 50.0}
        ),
        Method("ease", "ease", None, None, "least-squares weights between items", {"l2": 500.0}),
        Method(
            "als",
            "als",
            None,
            None,
            "weighted matrix factorisation by the library implicit",
            {"dim": 256, "l2": 200.0, "confidence": 80.0, "iterations": 10},
        ),
    )
}


def method_named(name: str) -> Method:
    """The method of that name, or a sentence that lists the names there are."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}")
    return METHODS[name]
