"""SCBO: a trust region that depends on the data alone, models of BoTorch, unchanged global generators."""

import sys
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from pied import MissingExtra, SettingError, Study, solve
from pied.errors import NumericalError
from pied.records.trial import Dataset, State
from pied.rivals.scbo import SCBO, scoped, trust_region
from pied.rng import Stream
from pied.solvers import make
from rivals import quick
from tiny import hill, parabola, points, waves

torch = pytest.importorskip("torch")
pytest.importorskip("botorch")


def record(values: list[float]) -> Dataset:
    """A record of the parabola's problem, by what its output was."""
    U = np.linspace(0.0, 1.0, len(values))[:, None]
    Y = np.array(values)[:, None]
    return Dataset(tuple(range(1, len(values) + 1)), U, Y, U[:0])


def test_the_region_doubles_after_successes_and_halves_after_failures() -> None:
    problem, settings = parabola(maximize="y"), SCBO()
    start = [0.0, 0.1, 0.2]
    assert trust_region(settings, problem, record(start)).length == 0.8
    assert trust_region(settings, problem, record([*start, 0.4, 0.6, 0.8])).length == 1.6
    assert trust_region(settings, problem, record([*start, 0.1, 0.1, 0.1])).length == 0.8
    halved = trust_region(settings, problem, record([*start, 0.1, 0.1, 0.1, 0.1]))
    assert halved.length == 0.4
    assert float(halved.center[0]) == pytest.approx(2 / 6)
    assert trust_region(settings, problem, record([*start, *[0.1] * 28])).length == 0.8  # too short: starts again


def test_the_centre_is_the_best_feasible_point_else_the_least_violated() -> None:
    some = parabola(maximize="y", subject_to={"low": "y <= 0.15"})
    assert float(trust_region(SCBO(), some, record([0.0, 0.1, 0.2])).center[0]) == 0.5
    none = parabola(maximize="y", subject_to={"high": "y >= 9"})
    assert float(trust_region(SCBO(), none, record([0.0, 0.1, 0.2])).center[0]) == 1.0


def test_the_global_generators_are_left_as_they_were() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    Study(waves(), solver=quick("scbo"), seed=0).run(6)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_a_scope_puts_every_generator_back_also_after_an_error_and_gives_the_same_numbers_inside() -> None:
    def drawn() -> tuple[float, float]:
        return float(torch.rand(1)), float(np.random.rand())

    seen = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        np.random.seed(seed)
        with suppress(KeyError), scoped(Stream(0)):
            seen.append(drawn())
            raise KeyError
        seen.append(drawn())
    torch.manual_seed(1)
    np.random.seed(1)
    assert seen[0] == seen[2]
    assert seen[1] == drawn()
    assert seen[1] != seen[3]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run_whatever_the_global_generators_do() -> None:
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(points(solve(waves(), 8, solver=quick("scbo"), seed=3).trials))
    assert runs[0] == runs[1]
    assert runs[0][:5] == points(solve(waves(), 5, solver="random", seed=3).trials)


@pytest.mark.slow
def test_failed_partial_and_pending_trials_are_borne() -> None:
    study = Study(waves(), solver=quick("scbo"), seed=2)
    study.run(6)
    study.fail(study.ask(), "pump tripped")
    study.tell(study.ask(), {"p": 0.5})
    first, second = study.ask(), study.ask()
    assert points([first]) != points([second])
    assert second.state is State.ASKED


@pytest.mark.slow
def test_the_optimum_of_a_tiny_problem_is_approached_and_white_constraints_are_kept() -> None:
    result = solve(hill(), 20, solver=make("scbo", candidates=500), seed=1)
    assert result.value == pytest.approx(2.0, abs=0.05)
    assert all(trial.x.a + trial.x.b <= 3 for trial in result.trials)


def test_models_that_fail_give_a_point_of_the_region_unless_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise NumericalError("not positive definite")

    monkeypatch.setattr("pied.rivals.scbo._fitted", fails)
    study = Study(hill(), solver=quick("scbo", strict=False), seed=0)
    study.run(6)
    assert study.trials[-1].why.rung == "random in the region: not positive definite"
    assert study.trials[-1].x.a + study.trials[-1].x.b <= 3
    with pytest.raises(NumericalError, match="not positive definite"):
        Study(hill(), solver=quick("scbo"), seed=0).run(6)


def test_without_botorch_the_command_to_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {"botorch", *(each for each in sys.modules if each.startswith("botorch."))}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"solver 'scbo' needs BoTorch: pip install .*\[botorch\]\""):
        Study(hill(), solver="scbo", seed=0)


def test_without_torch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pied.bridge", raising=False)
    monkeypatch.delattr("pied.bridge", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"solver 'scbo' needs BoTorch: pip install .*\[botorch\]\""):
        Study(hill(), solver="scbo", seed=0)


REFUSED = [
    ({"candidates": 0}, "counts points from 1, got 0"),
    ({"length": 2.0}, "must grow"),
    ({"successes": 0}, "count trials from 1"),
    ({"sides": 3}, "solver 'scbo' has no setting 'sides'"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED, ids=str)
def test_settings_out_of_range_are_refused_by_name(words: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingError, match=says):
        make("scbo", **words)
