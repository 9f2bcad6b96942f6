"""The registry: every method is one line, a model × a risk × a constraint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from densirank.errors import InputError
from densirank.settings import Settings, check_keys


@dataclass(frozen=True)
class Method:
    """How f_u(i) is made (model), what is minimised (risk), and n̄ of the norm clipping."""

    name: str
    model: str
    risk: str | None
    max_norm: float | None
    summary: str

    def settings(self, **overrides: object) -> Settings:
        """The method's defaults with the caller's choices on top."""
        check_keys(set(overrides))
        return replace(Settings(max_norm=self.max_norm), **overrides)  # type: ignore[arg-type]


METHODS: Mapping[str, Method] = {
    method.name: method
    for method in (
        Method("wd-lgcn", "lightgcn", "wd", 4.5, "LightGCN, WD risk, norm clipping"),
        Method("pde-lgcn", "lightgcn", "pde", 4.5, "LightGCN, PDE risk, norm clipping"),
        Method("mle-lgcn", "lightgcn", "mle", 4.5, "LightGCN, likelihood, norm clipping"),
        Method("wd-mf", "mf", "wd", 3.0, "matrix factorisation, WD risk, norm clipping"),
        Method("pde-mf", "mf", "pde", 3.0, "matrix factorisation, PDE risk, norm clipping"),
        Method("mle-mf", "mf", "mle", 3.0, "matrix factorisation, likelihood, norm clipping"),
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
