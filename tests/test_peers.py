"""Runs of Optuna and Ax: given the folded data they propose a point, without state."""

import importlib.util
import logging
import random
import sys
from typing import Any

import numpy as np
import pytest

from pied import MissingExtra, Problem, SettingError, Study
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.solvers import make
from tiny import hill, parabola, unchecked, waves

torch = pytest.importorskip("torch")
optuna = pytest.importorskip("optuna")

HAS_AX = importlib.util.find_spec("ax") is not None
INSTALLED = ["optuna", *(["ax"] if HAS_AX else [])]
"""Ax is hundreds of megabytes: where it is missing, what is tested is that its absence is named."""


def asked(problem: Problem, name: str, evaluations: int, seed: int = 0) -> Study:
    study = Study(problem, solver=name, seed=seed)
    for _ in range(evaluations):
        trial = study.ask()
        study.tell(trial, problem.evaluate(trial.x))
    return study


def initial(problem: Problem) -> Dataset:
    return asked(problem, "random", 2 * problem.d + 1).data


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_a_peer_finds_a_constrained_optimum(name: str) -> None:
    """The best point of the hill is where it is 2, at the line."""
    study = asked(hill(), name, 16)
    f = study.data.functions(study.problem)
    feasible = f[(f[:, 1:] >= 0).all(1), 0]
    assert -2.2 <= float(feasible.max()) <= -2.0


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_a_peer_sees_functions_not_outputs(name: str) -> None:
    """The same functions from other outputs give the same point."""
    one, two = waves(), waves().folded()
    data = initial(one)
    folded = Dataset(data.numbers, data.U, data.functions(one), data.imagined)
    proposals = [make(name).start(each, Stream(3)).ask(6, given) for each, given in ((one, data), (two, folded))]
    np.testing.assert_allclose(proposals[0].u, proposals[1].u, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_the_seed_and_the_record_decide(name: str) -> None:
    problem = waves()
    data = initial(problem)
    one, two = (make(name).start(problem, Stream(0)).ask(6, data) for _ in range(2))
    assert (one.u == two.u).all()
    assert one.why.aim == name


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_pending_failed_and_partial_points_are_not_asked_again(name: str) -> None:
    problem = waves()
    data = initial(problem)
    first = make(name).start(problem, Stream(0)).ask(6, data).u
    away = Dataset(data.numbers, data.U, data.Y, first[None])
    Y = np.concatenate([data.Y, np.full((1, 3), np.nan)])
    partial = Dataset((*data.numbers, 6), np.concatenate([data.U, first[None]]), Y, data.imagined)
    for given in (away, partial):
        second = make(name).start(problem, Stream(0)).ask(7, given).u
        assert np.abs(second - first).max() > 1e-6


@pytest.mark.parametrize("name", INSTALLED)
def test_global_generators_loggers_and_streams_are_left_alone(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    problem = parabola()
    data = initial(problem)
    run = make(name).start(problem, Stream(0))
    run.ask(4, data)  # the first call may import and greet
    capfd.readouterr()
    levels = optuna.logging.get_verbosity(), logging.getLogger("ax.api.client").level
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    with unchecked():  # the checks of shapes draw random numbers of their own
        run.ask(4, data)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()
    assert before[2] == random.getstate()
    assert levels == (optuna.logging.get_verbosity(), logging.getLogger("ax.api.client").level)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "library", "package"),
    [("optuna", "optuna", "optuna"), ("optuna", "torch", "torch"), ("ax", "ax", "ax-platform")],
)
def test_a_missing_peer_is_named_with_its_command(
    name: str, library: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=rf'solver \'{name}\' needs {package}: pip install .*\[peers\]"'):
        Study(parabola(), solver=name)


def test_the_settings_of_ax_are_checked_before_it_is_needed() -> None:
    wrong: Any = {"method": "slow"}
    with pytest.raises(SettingError, match="method is 'fast' or 'quality', got 'slow'"):
        make("ax", **wrong)
