"""How large a step is, and that replayed steps are the steps that would have been taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from densirank import Ranker
from densirank.data.synthetic import planted
from densirank.device import Hardware
from densirank.errors import InputError
from densirank.methods import METHODS
from densirank.models import MODELS, Model
from densirank.risks import RISKS, Risk
from densirank.settings import Candidates, TrainingSettings
from densirank.training.batches import BatchSampler
from densirank.training.callbacks import Report
from densirank.training.optim import optimiser_for, rate_at, set_rate
from densirank.training.step import WARM_UP, ReplayedSteps, step, steps_on

WORLD = planted(150, 90, items_per_user=10, test_items_per_user=3, seed=5)
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
all_candidates = pytest.mark.parametrize("candidates", ["batch", "all", 40])

schedules = st.builds(
    TrainingSettings,
    learning_rate=st.floats(1e-4, 1.0),
    iterations=st.integers(1, 60),
    warmup=st.integers(0, 80),
    decay=st.floats(0, 1),
)


def _rates(settings: TrainingSettings) -> list[float]:
    return [rate_at(iteration, settings) for iteration in range(settings.iterations)]


@given(schedules)
def test_the_rate_rises_stays_and_falls_between_zero_and_the_learning_rate(
    settings: TrainingSettings,
) -> None:
    rates = _rates(settings)
    assert all(0 < rate <= settings.learning_rate for rate in rates)
    peak = rates.index(max(rates))
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    falling = settings.decay * settings.iterations
    for iteration, rate in enumerate(rates):
        left = settings.iterations - iteration
        if iteration >= settings.warmup and left >= falling + 1:
            assert rate == settings.learning_rate
        if iteration < settings.warmup or left <= falling:
            assert rate < settings.learning_rate


@given(schedules)
def test_without_warmup_and_decay_the_rate_is_the_learning_rate(settings: TrainingSettings) -> None:
    rates = _rates(replace(settings, warmup=0, decay=0))
    assert set(rates) == {settings.learning_rate}


def test_rise_and_fall_are_linear_and_as_long_as_asked() -> None:
    rates = _rates(TrainingSettings(learning_rate=1.0, iterations=20, warmup=3, decay=0.2))
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1])
    assert set(rates[3:16]) == {1.0}
    assert rates[15:] == pytest.approx([1, 0.8, 0.6, 0.4, 0.2])


@pytest.mark.parametrize("optimiser", ["adam", "whitened"])
def test_a_plain_rate_is_replaced_and_the_optimiser_goes_by_it(optimiser: Any) -> None:
    settings = METHODS["wd-mf"].settings(dim=4, optimiser=optimiser, learning_rate=0.5)
    model = MODELS["mf"].of(WORLD.train, settings, torch.Generator().manual_seed(0))
    rule = optimiser_for(model, settings, Hardware(torch.device("cpu")))
    before = [table.detach().clone() for table in model.parameters()]
    set_rate(rule, 1e-3)
    sum(table.sum() for table in model.parameters()).backward()  # type: ignore[union-attr]
    rule.step()
    for table, old in zip(model.parameters(), before, strict=True):
        length = (table.detach() - old).square().mean().sqrt()
        assert 0 < float(length) < 2e-3


def test_a_rate_that_is_a_tensor_is_changed_in_place() -> None:
    rate = torch.tensor(0.5)
    two_groups = [{"params": [nn.Parameter(torch.zeros(2))]} for _ in range(2)]
    rule = torch.optim.SGD(two_groups, lr=rate)
    set_rate(rule, 0.125)
    assert [float(group["lr"]) for group in rule.param_groups] == [0.125, 0.125]
    assert rule.param_groups[0]["lr"] is rate


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_a_fit_follows_the_schedule(decay: float) -> None:
    """Without a fall the last steps are as long as the others; with one they die away."""
    settings = METHODS["wd-mf"].settings(dim=4, iterations=30, users_per_batch=50, decay=decay)
    model = MODELS["mf"].of(WORLD.train, settings, torch.Generator().manual_seed(0))
    hardware = Hardware(torch.device("cpu"))
    batches = BatchSampler(WORLD.train, 50, "batch", 0, hardware.device)
    rule = optimiser_for(model, settings, hardware)
    take_step = steps_on(
        hardware, model, RISKS["wd"].on(hardware, settings), batches, rule, settings
    )
    rates = []
    for iteration in range(30):
        take_step(iteration)
        rates += [group["lr"] for group in rule.param_groups]
    assert rates == _rates(settings)
    assert rates[-1] == pytest.approx(settings.learning_rate / (30 if decay else 1), rel=0.1)


@pytest.mark.parametrize("model", ["ngcf", "enmf", "mult-vae"])
def test_the_whitened_optimiser_refuses_what_is_no_table_of_vectors(model: str) -> None:
    settings = METHODS[model].settings(dim=4, optimiser="whitened")
    built = MODELS[model].of(WORLD.train, settings, torch.Generator().manual_seed(0))
    with pytest.raises(InputError, match="parameters that are not vectors of one length"):
        optimiser_for(built, settings, Hardware(torch.device("cpu")))


@pytest.mark.parametrize("method", ["ngcf", "enmf", "mult-vae", "lightgcn-ans", "bpr-mf-popular"])
def test_a_step_draws_from_the_seed_of_its_batch(method: str) -> None:
    chosen = METHODS[method]
    assert chosen.risk is not None
    settings = chosen.settings(dim=4, iterations=1)
    hardware = Hardware(torch.device("cpu"))
    batches = BatchSampler(WORLD.train, 50, settings.candidates, 0, hardware.device)
    batch = batches(0)

    def vectors_after(seed: int) -> Tensor:
        model = MODELS[chosen.model].of(WORLD.train, settings, torch.Generator().manual_seed(0))
        risk = RISKS[chosen.risk or ""].on(hardware, settings)
        seeded = replace(batch, positives=replace(batch.positives, seed=seed))
        step(model, risk, seeded, optimiser_for(model, settings, hardware), settings)
        return torch.cat(model.vectors()).detach()

    torch.manual_seed(1)
    first = vectors_after(batch.seed)
    torch.manual_seed(2)
    assert torch.equal(vectors_after(batch.seed), first)
    assert not torch.equal(vectors_after(batch.seed + 1), first)


class Beginning:
    """All that steps on a GPU start from, the same each time it is made."""

    def __init__(self, method: str, candidates: Candidates, **settings: Any) -> None:
        device = torch.device("cuda")
        self.hardware = Hardware(device, half=True)
        chosen = METHODS[method]
        self.settings = chosen.settings(
            dim=12, users_per_batch=70, iterations=12, candidates=candidates, **settings
        )
        generator = torch.Generator().manual_seed(0)
        self.model: Model = MODELS[chosen.model].of(WORLD.train, self.settings, generator)
        self.model.prepare(self.hardware)
        assert chosen.risk is not None
        self.risk: Risk = RISKS[chosen.risk].on(self.hardware, self.settings)
        self.batches = BatchSampler(WORLD.train, 70, candidates, 0, device)
        self.optimiser = optimiser_for(self.model, self.settings, self.hardware)

    def one_by_one(self, iteration: int) -> Tensor:
        """The step of this iteration without a recording."""
        set_rate(self.optimiser, rate_at(iteration, self.settings))
        batch = self.batches.arrange_padded(self.batches.draw(iteration))
        return step(self.model, self.risk, batch, self.optimiser, self.settings)


@on_cuda
@all_candidates
@pytest.mark.parametrize("optimiser", ["adam", "whitened"])
@pytest.mark.parametrize("method", ["wd-lgcn", "pde-mf", "mle-lgcn"])
def test_replayed_steps_are_the_steps_that_would_have_been_taken(
    method: str, candidates: Candidates, optimiser: str
) -> None:
    options = {"optimiser": optimiser, "warmup": 2, "decay": 0.5}
    eager = Beginning(method, candidates, **options)
    replayed = Beginning(method, candidates, **options)
    take_step = steps_on(
        replayed.hardware,
        replayed.model,
        replayed.risk,
        replayed.batches,
        replayed.optimiser,
        replayed.settings,
    )
    assert isinstance(take_step, ReplayedSteps)
    assert eager.settings.iterations > 2 * WARM_UP  # most of them come from the recording
    for iteration in range(eager.settings.iterations):
        expected, actual = eager.one_by_one(iteration), take_step(iteration)
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(replayed.model.vectors(), eager.model.vectors(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def _fitted(precision: str, candidates: Candidates, **options: Any) -> Ranker:
    fit_options = {key: options.pop(key) for key in ("checkpoint", "callbacks") if key in options}
    ranker = Ranker(
        "wd-lgcn",
        device="cuda",
        precision=precision,
        candidates=candidates,
        **{"dim": 16, "users_per_batch": 64, "iterations": 60, **options},
    )
    return ranker.fit(WORLD.train, checkpoint_seconds=0, **fit_options)


class Killed(BaseException):
    """Stands for a process that ends between two steps."""


def _kill_at_thirty(report: Report) -> None:
    if report.iteration == 30:
        raise Killed


@on_cuda
@all_candidates
@pytest.mark.parametrize("precision", ["half", "float32"])
def test_a_killed_run_resumes_to_the_same_result_on_a_gpu(
    tmp_path: Path, precision: str, candidates: Candidates
) -> None:
    path = tmp_path / "run.safetensors"
    whole = _fitted(precision, candidates)
    with pytest.raises(Killed):
        _fitted(precision, candidates, checkpoint=path, callbacks=[_kill_at_thirty])
    resumed = _fitted(precision, candidates, checkpoint=path)
    assert resumed.training_["iterations"] == 60
    for one, other in (
        (resumed.scorer_.user_vectors, whole.scorer_.user_vectors),
        (resumed.scorer_.item_vectors, whole.scorer_.item_vectors),
    ):
        assert float((one - other).norm()) < 1e-3 * float(other.norm())


@on_cuda
@all_candidates
def test_half_precision_ranks_as_well_as_single_precision(candidates: Candidates) -> None:
    half, single = (
        _fitted(precision, candidates).evaluate(WORLD.test)["ndcg@20"]
        for precision in ("half", "float32")
    )
    assert half == pytest.approx(single, rel=0.05)
    popularity = Ranker("popularity", device="cuda").fit(WORLD.train)
    assert half > 1.2 * popularity.evaluate(WORLD.test)["ndcg@20"]
