"""Hyper-parameters: what settings are, how they are read, and those of everything that is trained.

A model, a risk and the filters declare settings of their own, in their own files. A method has
those of its parts and no others, so that no setting can be given without effect. Run options
(device, seed, where to write) are kept apart: they change how a result is reached, not what is
asked for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from difflib import get_close_matches
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from densirank.dimensions import Choices, Range, Space
from densirank.errors import InputError

Candidates = int | Literal["batch", "all"]
Optimiser = Literal["adam", "whitened"]

RATES: Mapping[str, float] = {"adam": 0.05, "whitened": 0.2}
"""The step size that goes with an optimiser where none is given."""


LARGEST, SMALLEST = 1e9, 1e-30
"""What a number may be at most, and at least where it has to be above 0, unless its own rule is
narrower. Beyond, sums and squares of what it is multiplied with leave the range of float32."""


class Rule(Protocol):
    """What a setting may be."""

    @property
    def is_whole(self) -> bool: ...

    def check(self, key: str, value: object) -> None:
        """Refuse a value in a sentence."""

    def parse(self, key: str, text: str) -> object:
        """The value that a text stands for; what it may be is checked later."""


@dataclass(frozen=True)
class Whole:
    """A whole number, or one of a few other values."""

    at_least: int
    others: tuple[str | None, ...] = ()
    is_whole = True

    def check(self, key: str, value: object) -> None:
        if isinstance(value, str | None) and value in self.others:
            return
        if isinstance(value, int) and not isinstance(value, bool) and value >= self.at_least:
            return
        others = "".join(f"{_shown(other)}, " for other in self.others)
        otherwise = f"{others.removesuffix(', ')} or " if others else ""
        raise InputError(
            f"{key} must be {otherwise}a whole number of at least {self.at_least}, not {value!r}"
        )

    def parse(self, key: str, text: str) -> object:
        return _other(text, self.others, lambda: _number(key, text, int))


@dataclass(frozen=True)
class Number:
    """A number between bounds; ``above`` excludes the bound, ``none`` allows None.

    >>> Number().check("l2", 1e39)
    Traceback (most recent call last):
    densirank.errors.InputError: l2 must be a number of at least 0 and at most 1e+09, not 1e+39
    """

    at_least: float = 0.0
    above: float | None = None
    at_most: float = LARGEST
    none: bool = False
    is_whole = False

    def check(self, key: str, value: object) -> None:
        if value is None and self.none:
            return
        number = math.nan
        if isinstance(value, int | float) and not isinstance(value, bool):
            number = _float(value)
        least = self.at_least if self.above is None else max(self.above, SMALLEST)
        is_above = self.above is None or number > self.above
        if is_above and least <= number <= self.at_most:
            return
        bound = f"above {self.above:g}" if self.above is not None else f"of at least {least:g}"
        if self.above is not None and self.above < number < least:
            bound = f"of at least {least:g}"
        if self.at_most < LARGEST or number > self.at_most:  # where it is more than prudence
            bound += f" and at most {self.at_most:g}"
        raise InputError(f"{key} must be a number {bound}, not {value!r}")

    def parse(self, key: str, text: str) -> object:
        others = (None,) if self.none else ()
        return _other(text, others, lambda: _number(key, text, float))


@dataclass(frozen=True)
class OneOf:
    """One of a few names."""

    names: tuple[str, ...]
    is_whole = False

    def check(self, key: str, value: object) -> None:
        if value not in self.names:
            raise InputError(f"{key} must be one of {', '.join(self.names)}, not {value!r}")

    def parse(self, key: str, text: str) -> object:
        return text


def setting(default: Any, rule: Rule, help: str) -> Any:
    """A field of a :class:`Settings` dataclass.

    >>> @dataclass(frozen=True)
    ... class Own(Settings):
    ...     width: int = setting(3, Whole(at_least=1), "How wide.")
    >>> Own(width=0)
    Traceback (most recent call last):
    densirank.errors.InputError: width must be a whole number of at least 1, not 0
    """
    return dataclasses.field(default=default, metadata={"rule": rule, "help": help})


@dataclass(frozen=True)
class Settings:
    """What all settings have in common: rules, plain values, and reading from text.

    >>> TrainingSettings.parse({"max_norm": "none", "iterations": "32", "candidates": "all"})
    {'max_norm': None, 'iterations': 32, 'candidates': 'all'}
    """

    searched: ClassVar[Space] = {}
    """What a search looks at by default, of these settings or of those they add to."""

    if TYPE_CHECKING:  # which settings a method has is known when its parts are

        def __getattr__(self, key: str) -> Any: ...

    def __post_init__(self) -> None:
        for key, rule in self.rules().items():
            rule.check(key, getattr(self, key))

    @classmethod
    def rules(cls) -> dict[str, Rule]:
        """What each setting may be, by its key."""
        return {own.name: own.metadata["rule"] for own in fields(cls)}

    @classmethod
    def help(cls) -> dict[str, str]:
        """What each setting is, by its key."""
        return {own.name: own.metadata["help"] for own in fields(cls)}

    @classmethod
    def parts(cls) -> list[type[Settings]]:
        """The classes that declare these settings, what it is made from first."""
        known = (part for part in reversed(cls.__mro__) if issubclass(part, Settings))
        return [part for part in known if part.declared()]

    @classmethod
    def declared(cls) -> dict[str, str]:
        """What each setting is that this class declares itself."""
        own = get_annotations(cls)
        return {key: text for key, text in cls.help().items() if key in own}

    @classmethod
    def title(cls) -> str:
        """What the settings belong to."""
        return (cls.__doc__ or cls.__name__).partition("\n")[0].rstrip(".")

    @classmethod
    def space(cls) -> dict[str, Choices | Range]:
        """What a search looks at by default: a class knows better than those it is made from."""
        parts = (vars(part).get("searched", {}) for part in reversed(cls.__mro__))
        return {key: dimension for part in parts for key, dimension in part.items()}

    @classmethod
    def parse(cls, texts: Mapping[str, object]) -> dict[str, Any]:
        """Settings from text or TOML values: ``none`` for None, numbers as they are written."""
        cls.check_keys(texts)
        rules = cls.rules()
        parsed = {
            key: rules[key].parse(key, value) if isinstance(value, str) else value
            for key, value in texts.items()
        }
        cls(**parsed)  # refuse bad values here, where they are read
        return parsed

    @classmethod
    def check_keys(cls, keys: Mapping[str, object], of: str = "") -> None:
        """Refuse keys that are no settings here, naming those that are; ``of`` is who has them."""
        known = cls.rules()
        for key in keys:
            if key not in known:
                likely = get_close_matches(key, known, 1)
                meant = f"did you mean {likely[0]}? " if likely else ""
                raise InputError(
                    f"unknown setting {key!r}{of and f' of {of}'}; {meant}"
                    f"the settings are {', '.join(known)}"
                )

    def to_json(self) -> dict[str, Any]:
        """The settings as plain values, in the form :meth:`parse` reads."""
        return asdict(self)


@dataclass(frozen=True)
class TrainingSettings(Settings):
    """Training: the optimiser, the batches, and when to stop."""

    searched: ClassVar[Space] = {
        "learning_rate": Range(
            1e-4, 0.1, log=True, points=(1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1)
        ),
        "l2": Range(1e-6, 0.1, log=True, points=(1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1)),
    }

    optimiser: Optimiser = setting(
        "adam",
        OneOf(tuple(RATES)),
        "whitened momentum, or adam, which the paper uses.",
    )
    learning_rate: float = setting(
        RATES["adam"],
        Number(above=0, at_most=1e30),  # training says by itself where it is too large
        "The optimiser's step size. Default: 0.2, with adam 0.05.",
    )
    warmup: int = setting(0, Whole(0), "Training steps over which the step size rises to it.")
    decay: float = setting(
        1.0,
        Number(at_most=1),
        "Share of the iterations, at the end, over which the step size falls to zero.",
    )
    l2: float = setting(0.02, Number(), "Weight λ of the L2 regularisation.")
    max_norm: float | None = setting(
        None, Number(above=0, none=True), "Norm clipping's n̄; none: no clipping."
    )
    users_per_batch: int = setting(2500, Whole(1), "|U_B|: users in a batch.")
    candidates: Candidates = setting(
        "batch",
        Whole(1, ("batch", "all")),
        "I_B: the batch's unique positives, all items, or a uniform sample of this many.",
    )
    iterations: int = setting(
        100, Whole(1), "Training steps; with validation, the most that are made."
    )
    patience: int = setting(10, Whole(1), "Validations without improvement before training stops.")
    validate_every: int = setting(25, Whole(1), "Training steps between two validations.")


def whole_number(name: str, value: object, at_least: int, below: int = 2**63) -> int:
    """An argument that must be a whole number; NumPy's are taken too, ``True`` and 2.5 are not.

    >>> whole_number("k", 5, 1)
    5
    >>> whole_number("k", 2.5, 1)
    Traceback (most recent call last):
    densirank.errors.InputError: k must be a whole number of at least 1, not 2.5
    """
    bound = f"of at least {at_least}"
    if not isinstance(value, bool) and hasattr(value, "__index__"):
        try:
            number = int(value.__index__())
        except TypeError:  # an array, of which only some can be indices
            number = at_least - 1
        if at_least <= number < below:
            return number
        if number >= below:
            bound = f"below {below}"
    raise InputError(f"{name} must be a whole number {bound}, not {value!r}")


def flag(name: str, value: object) -> bool:
    """An argument that must be ``True`` or ``False``: ``"no"`` would count as true.

    >>> flag("filter_seen", "no")
    Traceback (most recent call last):
    densirank.errors.InputError: filter_seen must be True or False, not 'no'
    """
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise InputError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def real_number(name: str, value: object, low: float, high: float) -> float:
    """An argument that must be a number between two bounds.

    >>> real_number("temperature", "warm", 1e-6, 1e6)
    Traceback (most recent call last):
    densirank.errors.InputError: temperature must be between 0.000001 and 1000000, not 'warm'
    """
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not low <= number <= high:
        bounds = " and ".join(f"{bound:f}".rstrip("0").rstrip(".") for bound in (low, high))
        raise InputError(f"{name} must be between {bounds}, not {value!r}")
    return number


def _float(value: float) -> float:
    """The value, infinite where it is a whole number too large for a float."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(key: str, text: str, kind: type[int] | type[float]) -> float:
    try:
        return kind(text)
    except ValueError:
        whole = "whole " if kind is int else ""
        raise InputError(f"{key} cannot be {text!r}: that is not a {whole}number") from None


def _other(text: str, others: tuple[str | None, ...], number: Any) -> object:
    if None in others and text.lower() == "none":
        return None
    return text if text in others else number()


def _shown(other: str | None) -> str:
    return "none" if other is None else repr(other)
