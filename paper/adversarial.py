"""PDE compared with IRWGAN, the adversarial game that it avoids: the generator and its cost.

Section 4.1 shows that the optimal generator for a critic f is p_f, so a ranker trained with p_f in
its place, which is PDE, needs no generator. Here both are trained on one small synthetic data set.
Maximum likelihood is included for comparison: for a fixed generator equal to p_f, the critic has
the gradient of −Ê₊[f] + A(f), and PDE also includes the gradient of p_f.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from densirank.data.synthetic import Planted, planted
from densirank.device import Hardware
from densirank.errors import StorageError
from densirank.evaluation.held_out import HeldOut
from densirank.files import written_atomically
from densirank.methods import method_named
from densirank.models import MODELS, Model
from densirank.models.adversaries import Adversaries
from densirank.risks import RISKS
from densirank.risks.adversarial import irwgan_risk
from densirank.scores import VectorScorer
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Snapshots
from densirank.training.loop import train
from paper.provenance import versions
from paper.sheets import Sheet

LOOKS = (10, 30, 100, 300, 1000)
"""Iterations after which both are looked at."""

QUICK_LOOKS = (1, 3)

ALONE = 500
"""Final steps of the generator alone, against a fixed critic."""

ON_CPU = Hardware(torch.device("cpu"))


@dataclass(frozen=True)
class Look:
    """The state of critic and generator after some iterations, as means over users."""

    iteration: int
    divergence: float
    """KLD(q ‖ p_f) of the generator from the density of its own critic."""
    agreement_pde: float
    """Correlation, over the items, of the critic's scores with PDE's."""
    agreement_mle: float
    irwgan_ndcg: float
    pde_ndcg: float
    mle_ndcg: float
    irwgan_seconds: float
    pde_seconds: float


@dataclass(frozen=True)
class Game:
    """The whole experiment."""

    looks: list[Look]
    divergence_alone: float
    """KLD(q ‖ p_f) once the generator has answered the last critic at leisure."""

    versions: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The figures as plain values."""
        return asdict(self)

    def write(self, path: Path) -> None:
        """Keep the figures."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with written_atomically(path) as temporary:
            temporary.write_text(json.dumps(self.to_json(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Game:
        """Read the recorded figures; raises if they cannot be used."""
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            looks = [Look(**look) for look in kept["looks"]]
            return cls(looks, float(kept["divergence_alone"]), dict(kept["versions"]))
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"{path} holds no record of this experiment ({error}); take it away"
            ) from error

    def sheet(self) -> Sheet:
        """The figures as a table."""
        return Sheet(
            "IRWGAN beside PDE and MLE, factorising a planted world of 300 users and 200 items",
            (
                "iterations",
                "KLD(q ‖ p_f)",
                "correlation with PDE",
                "with MLE",
                "nDCG@20, IRWGAN",
                "PDE",
                "MLE",
                "seconds, IRWGAN",
                "PDE",
            ),
            tuple(
                (
                    str(look.iteration),
                    f"{look.divergence:.4f}",
                    f"{look.agreement_pde:.3f}",
                    f"{look.agreement_mle:.3f}",
                    f"{look.irwgan_ndcg:.4f}",
                    f"{look.pde_ndcg:.4f}",
                    f"{look.mle_ndcg:.4f}",
                    f"{look.irwgan_seconds:.2f}",
                    f"{look.pde_seconds:.2f}",
                )
                for look in self.looks
            ),
            f"{ALONE} more steps of the generator alone, against the last critic: "
            f"KLD(q ‖ p_f) = {self.divergence_alone:.1e}.",
        )


def play(looks: tuple[int, ...] = LOOKS, seed: int = 0) -> Game:
    """Train both on the same data and record snapshots."""
    world = planted(300, 200, items_per_user=20, test_items_per_user=5, seed=seed)
    game = _model("irwgan", world, seed)
    assert isinstance(game, Adversaries)
    played = _trained("irwgan", game, world, looks, seed)
    pde, mle = (
        _trained(method, _model(method, world, seed), world, looks, seed)
        for method in ("pde-mf", "mle-mf")
    )
    judged = [
        Look(
            iteration=iteration,
            divergence=of_game.divergence,
            agreement_pde=_correlation(of_game.scores, of_pde.scores),
            agreement_mle=_correlation(of_game.scores, of_mle.scores),
            irwgan_ndcg=of_game.ndcg,
            pde_ndcg=of_pde.ndcg,
            mle_ndcg=of_mle.ndcg,
            irwgan_seconds=of_game.seconds,
            pde_seconds=of_pde.seconds,
        )
        for iteration, of_game, of_pde, of_mle in zip(looks, played, pde, mle, strict=True)
    ]
    return Game(judged, _answer_alone(game, world), versions())


@dataclass(frozen=True)
class _Moment:
    """What is kept of a model at one iteration."""

    seconds: float
    scores: Tensor  # (users, items)
    ndcg: float
    divergence: float


def _model(method: str, world: Planted, seed: int) -> Model:
    chosen = method_named(method)
    generator = torch.Generator().manual_seed(seed)
    return MODELS[chosen.model].of(world.train, _settings(method, 1), generator)


def _settings(method: str, iterations: int) -> Any:
    return method_named(method).settings(
        dim=16,
        iterations=iterations,
        candidates="all",
        max_norm=2.5,
        learning_rate=0.02,
        l2=0.01,
    )


def _trained(
    method: str, model: Model, world: Planted, looks: tuple[int, ...], seed: int
) -> list[_Moment]:
    """The model at each snapshot of one training run."""
    held_out = HeldOut(world.test, world.train, ON_CPU.device)
    moments: list[_Moment] = []

    def look(iteration: int, seconds: float, users: Tensor, items: Tensor) -> None:
        ndcg = held_out.evaluate(VectorScorer(users, items), 20).summary()["ndcg@20"]
        moments.append(_Moment(seconds, users @ items.T, ndcg, _divergence(model)))

    settings = _settings(method, max(looks))
    risk = method_named(method).risk
    assert risk is not None
    batches = BatchSampler(world.train, world.train.n_users, "all", seed, ON_CPU.device)
    train(
        model,
        RISKS[risk].on(ON_CPU, settings),
        batches,
        settings,
        ON_CPU,
        snapshots=Snapshots(frozenset(looks), look),
    )
    return moments


def _divergence(model: Model) -> float:
    """The mean over users of KLD(q ‖ p_f); 0 for a model that is its own generator."""
    if not isinstance(model, Adversaries):
        return 0.0
    with torch.no_grad():
        users, items = model.generator.vectors()
        log_q = torch.log_softmax(users @ items.T, dim=1)
        users, items = model.critic.vectors()
        log_p = torch.log_softmax(users @ items.T, dim=1)
        return float((log_q.exp() * (log_q - log_p)).sum(dim=1).mean())


def _answer_alone(game: Adversaries, world: Planted) -> float:
    """What is left of KLD(q ‖ p_f) when the critic waits for the generator."""
    everybody = BatchSampler(world.train, world.train.n_users, "all", 0, ON_CPU.device)(0)
    optimiser = torch.optim.Adam(game.generator.parameters(), lr=0.02)
    for _ in range(ALONE):
        optimiser.zero_grad()
        vectors = game.batch_vectors(everybody.users, everybody.items, everybody.seed)
        irwgan_risk(*vectors, everybody.positives).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return _divergence(game)


def _correlation(one: Tensor, other: Tensor) -> float:
    """The mean over users of the correlation between two rows of scores."""
    centred = [scores - scores.mean(dim=1, keepdim=True) for scores in (one, other)]
    one, other = (torch.nn.functional.normalize(scores, dim=1) for scores in centred)
    return float((one * other).sum(dim=1).mean())
