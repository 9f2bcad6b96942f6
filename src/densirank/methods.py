"""The registry: every method is one line, a model × a risk × a constraint and its own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from densirank.errors import InputError
from densirank.settings import RATES, Optimiser, Settings, check_keys

OPTIMISERS: Mapping[str, Optimiser] = {"mf": "adam", "lightgcn": "whitened"}
"""Which optimiser a model starts with. Free vectors that move in all directions at the same pace
learn a small data set by heart, where Adam finds what is shared first; a graph shares anyway."""


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
        Method("popularity", "popularity", None, None, "most popular items, the same for all"),
    )
}


def method_named(name: str) -> Method:
    """The method of that name, or a sentence that lists the names there are."""
    if name not in METHODS:
        raise InputError(f"there is no method {name!r}; the methods are {', '.join(METHODS)}")
    return METHODS[name]
