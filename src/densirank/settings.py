"""The hyper-parameters of a fit, and reading them from text.

Run options (device, seed, where to write) are kept apart: they change how a result is reached,
not what is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypedDict, cast, get_args

from densirank.errors import InputError

Candidates = int | Literal["batch", "all"]
Optimiser = Literal["adam", "whitened"]
FilterKind = Literal["mild", "graph", "ridge"]

RATES: Mapping[str, float] = {"adam": 0.05, "whitened": 0.2}
"""The step size that goes with an optimiser where none is given."""


WEIGHTINGS = ("recency", "user_exponent", "base_exponent", "candidate_correction")
"""What makes a density risk more general than the paper's."""


FILTER_KINDS: tuple[FilterKind, ...] = get_args(FilterKind)
"""What makes items near each other in the item–item filter."""


FILTERS = ("filter_weight", "low_pass_weight")
"""How much of what needs no training stands beside the vectors."""


class SettingOverrides(TypedDict, total=False):
    """The settings a caller may give; what is left out takes the method's default."""

    dim: int
    layers: int
    optimiser: Optimiser
    learning_rate: float
    warmup: int
    decay: float
    l2: float
    max_norm: float | None
    users_per_batch: int
    candidates: Candidates
    iterations: int
    patience: int
    validate_every: int
    filter_weight: float
    recency: float
    user_exponent: float
    base_exponent: float
    candidate_correction: float
    hard_candidates: int
    filter_recency: float
    filter_span: int
    filter_kind: FilterKind
    low_pass_weight: float
    low_pass_rank: int
    inference_layers: int | None
    negatives: int
    dropout: float
    unobserved_weight: float
    ratio_bound: float
    confidence: float
    neighbours: int


@dataclass(frozen=True)
class Settings:
    """What is trained and how long; the same keys in Python, ``--set`` and the config file.

    >>> Settings(dim=32).dim
    32
    >>> Settings(dim=0)
    Traceback (most recent call last):
    densirank.errors.InputError: dim must be a whole number of at least 1, not 0
    """

    dim: int = 64
    """Length d of the vectors."""
    layers: int = 3
    """Propagation layers K of LightGCN."""
    optimiser: Optimiser = "whitened"
    """``whitened`` momentum, or ``adam``, which the paper uses."""
    learning_rate: float = RATES["whitened"]
    """The optimiser's step size; where it is not given, 0.2 for ``whitened``, 0.05 for ``adam``."""
    warmup: int = 0
    """Training steps over which the step size rises to it."""
    decay: float = 1.0
    """Share of the iterations, at the end, over which the step size falls to zero."""
    l2: float = 0.02
    """Weight λ of the L2 regularisation; ItemKNN's shrinkage."""
    max_norm: float | None = 4.5
    """Norm clipping's n̄; None: no clipping."""
    users_per_batch: int = 2500
    """|U_B|."""
    candidates: Candidates = "batch"
    """I_B: the batch's unique positives, all items, or a uniform sample of this many."""
    iterations: int = 100
    """Training steps; with validation, the most that are made."""
    patience: int = 10
    """Validations without improvement before training stops."""
    validate_every: int = 25
    """Training steps between two validations."""
    filter_weight: float = 0.0
    """How much of the one-hop item–item filter is added to the scores; 0: none."""
    recency: float = 0.0
    """δ: a user's positives weigh exp(δ · position), from 0 (oldest) to 1 (newest)."""
    user_exponent: float = 0.0
    """γ: users weigh n_u^γ, n_u being how many items they have."""
    base_exponent: float = 0.0
    """β: the base density p0(i) ∝ popularity^β; 0: uniform, as in the paper."""
    candidate_correction: float = 0.0
    """κ: p0 is divided by (the chance to be a candidate)^κ; 1: importance weighting."""
    hard_candidates: int = 0
    """Items near to their own that each user of a batch adds to the candidates."""
    filter_recency: float = 0.0
    """δ of the user's items in the item–item filter."""
    filter_span: int = 0
    """Items in a row of time that are near each other in the filter; 0: time says nothing there."""
    filter_kind: FilterKind = "mild"
    """N of the filter: ``mild`` or the ``graph``'s way with popular items, or by ``ridge``."""
    low_pass_weight: float = 0.0
    """How much of the low-pass filter is added to the scores; 0: none."""
    low_pass_rank: int = 256
    """Numbers that the low-pass filter adds to each vector."""
    inference_layers: int | None = None
    """Propagation layers of LightGCN once it is trained; None: as many as in training."""
    negatives: int = 5
    """Items that a pairwise risk draws for each user of a batch."""
    dropout: float = 0.0
    """Share of the numbers that NGCF, ENMF and Mult-VAE leave out while they train."""
    unobserved_weight: float = 0.02
    """ENMF's weight w of an unobserved pair; an observed one has 1."""
    ratio_bound: float = 70.0
    """DREGN-CF's upper bound of the density ratio."""
    confidence: float = 40.0
    """ALS's α: an observed pair weighs α, an unobserved one 1."""
    neighbours: int = 200
    """Similar items that ItemKNN and EASE keep of each item."""

    def __post_init__(self) -> None:
        for key in POSITIVE_COUNTS:
            _check_whole(key, getattr(self, key), at_least=1)
        for key in ("layers", "warmup", "filter_span", "hard_candidates"):
            _check_whole(key, getattr(self, key), at_least=0)
        if self.optimiser not in RATES:
            raise InputError(f"optimiser must be {' or '.join(RATES)}, not {self.optimiser!r}")
        if self.filter_kind not in FILTER_KINDS:
            names = ", ".join(FILTER_KINDS)
            raise InputError(f"filter_kind must be one of {names}, not {self.filter_kind!r}")
        _check_number("learning_rate", self.learning_rate, above=0)
        _check_number("l2", self.l2, above=None)
        _check_number("decay", self.decay, above=None, at_most=1)
        for key in (*FILTERS, "filter_recency", *WEIGHTINGS):
            _check_number(key, getattr(self, key), above=None)
        if self.inference_layers is not None:
            _check_whole("inference_layers", self.inference_layers, at_least=0)
        _check_number("dropout", self.dropout, above=None, at_most=0.99)
        _check_number("unobserved_weight", self.unobserved_weight, above=0, at_most=1)
        _check_number("ratio_bound", self.ratio_bound, above=0)
        _check_number("confidence", self.confidence, above=None)
        if self.max_norm is not None:
            _check_number("max_norm", self.max_norm, above=0)
        if self.candidates not in ("batch", "all"):
            _check_whole("candidates", self.candidates, at_least=1, otherwise="'batch', 'all' or ")

    @property
    def final_layers(self) -> int:
        """Propagation layers once training is over."""
        return self.layers if self.inference_layers is None else self.inference_layers

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values, in the form :func:`parse_settings` reads."""
        return asdict(self)


KEYS = tuple(field.name for field in fields(Settings))
FLOATS = (
    "learning_rate",
    "decay",
    "l2",
    "max_norm",
    *FILTERS,
    "filter_recency",
    *WEIGHTINGS,
    "dropout",
    "unobserved_weight",
    "ratio_bound",
    "confidence",
)
POSITIVE_COUNTS = (
    "dim",
    "users_per_batch",
    "iterations",
    "patience",
    "validate_every",
    "negatives",
    "neighbours",
    "low_pass_rank",
)


def _check_whole(key: str, value: object, at_least: int, otherwise: str = "") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        raise InputError(
            f"{key} must be {otherwise}a whole number of at least {at_least}, not {value!r}"
        )


def _check_number(key: str, value: object, above: float | None, at_most: float = math.inf) -> None:
    number = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value)
    enough = number >= 0 if above is None else number > above
    if math.isfinite(number) and enough and number <= at_most:
        return
    bound = "of at least 0" if above is None else f"above {above:g}"
    if at_most < math.inf:
        bound += f" and at most {at_most:g}"
    raise InputError(f"{key} must be a number {bound}, not {value!r}")


def check_keys(keys: Mapping[str, object] | set[str]) -> None:
    """Refuse keys that are no settings, naming those that are."""
    unknown = sorted(set(keys) - set(KEYS))
    if unknown:
        raise InputError(f"unknown setting {unknown[0]!r}; the settings are {', '.join(KEYS)}")


def parse_settings(texts: Mapping[str, object]) -> SettingOverrides:
    """Settings from text or TOML values: ``none`` for no clipping, numbers as they are written.

    >>> parse_settings({"max_norm": "none", "dim": "32", "candidates": "all"})
    {'max_norm': None, 'dim': 32, 'candidates': 'all'}
    """
    check_keys(texts)
    parsed = {key: _parse(key, value) for key, value in texts.items()}
    Settings(**parsed)  # refuse bad values here, where they are read
    return cast(SettingOverrides, parsed)


def _parse(key: str, value: object) -> Any:
    if not isinstance(value, str):
        return value
    if key in ("max_norm", "inference_layers") and value.lower() == "none":
        return None
    if key in ("optimiser", "filter_kind") or (key == "candidates" and value in ("batch", "all")):
        return value
    try:
        return float(value) if key in FLOATS else int(value)
    except ValueError:
        raise InputError(f"{key} cannot be {value!r}: that is not a number") from None
