"""The registry of methods: each is a model × a risk × a constraint, with its own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any

from densirank.dimensions import Choices, Range, Space
from densirank.errors import InputError
from densirank.settings import RATES, Settings

if TYPE_CHECKING:
    from densirank.device import Hardware
    from densirank.models import Model
    from densirank.risks import RiskSpec


@dataclass(frozen=True)
class Method:
    """A method: the model of f_u(i), the risk that is minimised, and n̄ of the norm clipping.

    A method without a risk is not trained: it has a closed form, or a library computes it. Model
    and risk are given by name, so that methods can be listed without importing torch.
    """

    name: str
    model: str
    risk: str | None
    max_norm: float | None
    summary: str
    defaults: Mapping[str, object] = field(
        default_factory=dict
    )  # where they differ from the general ones
    timed: Mapping[str, object] = field(default_factory=dict)  # in addition, if an order is known
    searched: Space = field(default_factory=dict)  # in addition to the spaces of its parts
    searched_timed: Space = field(default_factory=dict)  # in addition, if an order is known

    @property
    def model_type(self) -> type[Model]:
        """The class of the model."""
        from densirank.models import MODELS

        if self.model not in MODELS:
            known = ", ".join(MODELS)
            raise InputError(f"there is no model {self.model!r}; the models are {known}")
        return MODELS[self.model]

    @property
    def risk_spec(self) -> RiskSpec | None:
        """The risk, or None if the method is not trained."""
        from densirank.risks import RISKS

        if self.risk is None:
            return None
        if self.risk not in RISKS:
            raise InputError(f"there is no risk {self.risk!r}; the risks are {', '.join(RISKS)}")
        return RISKS[self.risk]

    @property
    def uses_weights(self) -> bool:
        """Whether the weights of the pairs count in its risk, or where its model is made.

        A filter uses them in any case.
        """
        risk = self.risk_spec
        return self.model_type.uses_weights or (risk is not None and risk.is_density)

    def hardware(self, device: str, precision: str, settings: Settings) -> Hardware:
        """The hardware for a fit with these settings; raises if it is not available."""
        from densirank.device import resolve_hardware

        risk = self.risk_spec
        if risk is None or risk.on_tensor_cores is None:
            return resolve_hardware(device, precision, 0, has_kernels=False)
        return resolve_hardware(device, precision, settings.dim)

    @property
    def settings_type(self) -> type[Settings]:
        """The class with the settings of the model, the risk and the filters."""
        return _settings_of(self.model_type, self.risk_spec)  # type: ignore[arg-type]

    def settings(self, **overrides: object) -> Any:
        """The method's defaults with ``overrides``, as an instance of its ``settings_type``."""
        kind = self.settings_type
        given = {**self.defaults, **overrides}
        kind.check_keys(given, self.name)
        if self.risk is not None:
            optimiser = given.get("optimiser", self.model_type.optimiser)
            usual = {
                "max_norm": self.max_norm,
                "optimiser": optimiser,
                "learning_rate": RATES.get(str(optimiser), 1.0),
            }
            given = usual | given
        return kind(**given)

    def settings_for(self, ordered: bool, **overrides: object) -> Any:
        """The settings for data with or without a known order."""
        return self.settings(**{**(self.timed if ordered else {}), **overrides})

    def own(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of this method in a stored record.

        Records of version 0.1.0 contain the settings of all methods; those of others are ignored.
        """
        known = self.settings_type.rules()
        others = {key for method in METHODS.values() for key in method.settings_type.rules()}
        return {key: stored[key] for key in stored if key in known or key not in others}


@cache
def _settings_of(model: type[Model], risk: RiskSpec | None) -> type[Settings]:
    """A class with the settings of a model, a risk, and filters if the model supports them."""
    from densirank.filters.combine import FilterSettings

    parts: list[type[Settings]] = [model.settings]
    if risk is not None:
        parts.append(risk.settings)
    if model.takes_filters:
        parts.append(FilterSettings)
    bases = dict.fromkeys(
        part
        for part in parts
        if not any(issubclass(other, part) and other is not part for other in parts)
    )
    doc = {"__doc__": f"The settings of the model {model.name} and its risk."}
    return dataclass(frozen=True)(type("MethodSettings", tuple(bases), doc))


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
"""Defaults of pairwise methods. Uniform negatives carry little information, so many are drawn;
negatives drawn by the ranker or from the batch's positive items carry more."""

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
"""The general form of the density risk: base density, user weights and item–item filter."""
BLIND: Mapping[str, object] = {
    **GENERAL,
    "base_exponent": 0.25,
    "l2": 0.04,
    "filter_weight": 0.05,
    "low_pass_weight": 0.05,
}
"""Without an order of time: a smaller item–item filter, and a low-pass filter in addition."""
TIMED: Mapping[str, object] = {
    "recency": 2.0,
    "filter_weight": 0.2,
    "filter_recency": 3.0,
    "filter_span": 8,
}
"""With an order of time: recent items count more, and items close in time are related."""

SEARCHED: Space = {
    "base_exponent": Range(0.0, 0.5, points=(0.0, 0.25, 0.5)),
    "user_exponent": Range(0.0, 1.25, points=(0.0, 0.5, 0.75, 1.0)),
    "filter_weight": Range(0.02, 2.0, log=True, points=(0.05, 0.1, 0.2, 0.4)),
}
"""Settings of the general form that are searched in addition to the paper's grid."""
SEARCHED_BLIND: Space = {
    **SEARCHED,
    "filter_kind": Choices(("mild", "graph", "ridge")),
    "low_pass_weight": Range(0.0, 0.2, points=(0.0, 0.05, 0.1)),
}
SEARCHED_TIMED: Space = {
    "recency": Range(0.0, 5.0, points=(0.0, 1.0, 2.0, 3.0)),
    "filter_recency": Range(0.0, 20.0, points=(0.0, 2.0, 5.0, 10.0)),
    "filter_span": Choices((0, 4, 8, 16)),
}

METHODS: dict[str, Method] = {
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
            SEARCHED,
            SEARCHED_TIMED,
        ),
        Method(
            "densirank-blind",
            "lightgcn",
            "wd",
            4.5,
            "the same, blind to the order of time, with a low-pass filter too",
            BLIND,
            searched=SEARCHED_BLIND,
        ),
        Method(
            "densirank-blind-pde",
            "lightgcn",
            "pde",
            4.5,
            "the same with the PDE risk",
            BLIND,
            searched=SEARCHED_BLIND,
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
    """The method with this name; raises an error that lists all names if there is none."""
    if not isinstance(name, str) or name not in METHODS:
        likely = get_close_matches(str(name), METHODS, 1)
        meant = f"did you mean {likely[0]}? " if likely else ""
        raise InputError(
            f"there is no method {name!r}; {meant}the methods are {', '.join(METHODS)}"
        )
    return METHODS[name]


def register_method(method: Method, model: type[Model] | None = None) -> Method:
    """Register a method by name, and the class of its model if the model is new.

    In this process it can then be fitted, tuned, compared, saved and loaded like any other method.
    :mod:`densirank.testing` checks that it fulfils the contract of methods.

    Parameters
    ----------
    method
        A model × a risk × a constraint: the names of a model and of a risk, n̄ or None.
    model
        A subclass of :class:`densirank.models.Model` whose ``name`` is the model of the method.

    Raises
    ------
    InputError
        If a name is already registered, or the model or risk does not exist.
    """
    from densirank.models import MODELS

    if method.name in METHODS:
        raise InputError(f"there is a method {method.name!r} already; choose another name")
    if model is not None:
        if MODELS.get(model.name, model) is not model:
            raise InputError(f"there is a model {model.name!r} already; choose another name")
        MODELS[model.name] = model
    try:
        method.settings()  # model, risk and defaults exist and agree
    except InputError:
        if model is not None:
            del MODELS[model.name]
        raise
    METHODS[method.name] = method
    return method
