"""A method that is written elsewhere is registered, and then is like all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from densirank import METHODS, Interactions, Ranker, register_method, tune
from densirank.cli.app import app
from densirank.dimensions import Choices, Space
from densirank.errors import InputError
from densirank.methods import Method
from densirank.models import MODELS
from densirank.models.base import Factorisation, NewUsers, Trained, VectorSettings
from densirank.models.mf import MatrixFactorisation
from densirank.settings import Number, Settings, setting
from densirank.testing import METHOD_CHECKS, Subject, checkerboard


@dataclass(frozen=True)
class StretchedSettings(VectorSettings):
    """Stretched factorisation."""

    searched: ClassVar[Space] = {"stretch": Choices((0.5, 1.0, 2.0))}

    stretch: float = setting(1.0, Number(above=0), "Length that the users' vectors are given.")


class Stretched(Factorisation):
    """f_u(i) = stretch · e_u · e_i."""

    name = "stretched"
    settings = StretchedSettings
    folds_in = True
    stretch: float

    @classmethod
    def of(cls, data: Interactions, settings: Settings, generator: torch.Generator) -> Self:
        model = cls(data.n_users, data.n_items, settings.dim, generator)
        model.stretch = settings.stretch
        return model

    @classmethod
    def fold_in(cls, trained: Trained, histories: Interactions) -> NewUsers:
        return MatrixFactorisation.fold_in(trained, histories)

    def vectors(self) -> tuple[Tensor, Tensor]:
        return self.stretch * self.user_table, self.item_table


METHOD = Method("wd-stretched", "stretched", "wd", 2.5, "stretched factorisation, WD risk")
SUBJECT = Subject(METHOD.name, {"dim": 8, "iterations": 60, "learning_rate": 0.03, "stretch": 1.5})


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_method(METHOD, Stretched)
    yield
    del METHODS[METHOD.name], MODELS[Stretched.name]


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: str(check.__name__))
def test_it_keeps_the_contract(check: Callable[[Subject], None]) -> None:
    check(SUBJECT)


def test_its_settings_are_explained_searched_and_its_own() -> None:
    explained = CliRunner().invoke(app, ["fit", "--method", METHOD.name, "--help-settings"])
    assert "Length that the users' vectors are given." in " ".join(explained.stdout.split())
    study = tune(
        checkerboard(), METHOD.name, {"stretch": [0.5, 2.0]}, grid=True, settings={"iterations": 5}
    )
    assert {trial.settings["stretch"] for trial in study.trials} == {0.5, 2.0}
    with pytest.raises(InputError, match="unknown setting 'stretch' of wd-mf"):
        Ranker("wd-mf", stretch=1.0)


def test_names_that_are_taken_or_unknown_are_refused() -> None:
    with pytest.raises(InputError, match="a method 'wd-stretched' already"):
        register_method(METHOD)
    with pytest.raises(InputError, match="a model 'mf' already"):
        register_method(
            Method("mine", "mf", "wd", None, ""), type("Mine", (Stretched,), {"name": "mf"})
        )
    with pytest.raises(InputError, match="no model 'nowhere'"):
        register_method(Method("mine", "nowhere", "wd", None, ""))
    with pytest.raises(InputError, match="no risk 'none-such'"):
        register_method(Method("mine", "mf", "none-such", None, ""))
    with pytest.raises(InputError, match="unknown setting 'depth'"):
        register_method(Method("mine", "mf", "wd", None, "", {"depth": 3}))
    assert "mine" not in METHODS
