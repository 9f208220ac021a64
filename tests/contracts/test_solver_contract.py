"""What every registered solver promises. A new solver is tested by being listed."""

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from jaxtyping import config
from numpy import ndarray
from scipy.linalg import lapack

from pied import CUQB, MissingExtra, Problem, SettingError, Study
from pied.records.trial import Dataset, Why
from pied.rng import Stream
from pied.solvers import make, registry
from pied.solvers.base import Proposal, Run, Solver
from tiny import SMALL


def unconstrained() -> Problem:
    """One variable, one output."""
    return Problem({"x": (-1.0, 2.0)}, ["y"], blackbox=lambda x: math.sin(2 * x.x), maximize="y - x**2", noise=0)


def constrained() -> Problem:
    """Two variables, one output, a black and a white constraint."""
    return Problem(
        {"a": (0.0, 2.0), "b": (1.0, 5.0)},
        ["y"],
        blackbox=lambda x: x.a * x.b,
        minimize="y + (a - 1)**2",
        subject_to={"black": "y >= 1", "white": "a + b <= 4"},
        noise=0,
    )


def several() -> Problem:
    """Three outputs with inputs of their own and noise to be learned."""
    return Problem(
        {"s": (0.0, 1.0), "t": (0.0, 1.0)},
        ["p", "q", "r"],
        blackbox=lambda x: [math.exp(x.s), x.t**2, x.s - x.t],
        maximize="p*q + r",
        subject_to={"limit": "p + q <= 3"},
        inputs={"p": ["s"], "q": ["t"]},
    )


PROBLEMS = {"unconstrained": unconstrained, "constrained": constrained, "several": several}
QUICK = ("cuqb", "random", "sobol")
"""Solvers tested in the quick part too; the others take longer than a second in all."""
AS_PUBLISHED = [name for name in registry if name.endswith("-paper") and name != "cuqb-paper"]
"""Other settings of a solver that is tested anyway: before a release."""


def _marks(name: str) -> list[pytest.MarkDecorator]:
    if name in AS_PUBLISHED:
        return [pytest.mark.long, pytest.mark.slow]
    return [] if name in QUICK else [pytest.mark.slow]


EVERY = pytest.mark.parametrize("solver", [pytest.param(name, marks=_marks(name)) for name in registry])
EVERYWHERE = pytest.mark.parametrize("problem", list(PROBLEMS))


def none(problem: Problem) -> ndarray:
    return np.zeros((0, problem.d))


def truth(problem: Problem, U: ndarray) -> ndarray:
    return np.stack([problem.evaluate(x.tolist()) for x in problem.from_unit(U)])


def told(problem: Problem, U: ndarray, imagined: ndarray | None = None, last: Why | None = None) -> Dataset:
    numbers = tuple(range(1, len(U) + 1))
    return Dataset(numbers, U, truth(problem, U), imagined if imagined is not None else none(problem), last)


def start_of(problem: Problem, points: int) -> ndarray:
    return Stream(7).uniform(points, problem.d)


def run_of(solver: str, problem: Problem, asks: int, seed: int = 0) -> list[Proposal]:
    """Ask a few times, telling the truth after each."""
    run: Run = make(solver).start(problem, Stream(seed))
    U, last, proposals = start_of(problem, 2 * problem.d + 1), None, []
    for _ in range(asks):
        proposals.append(run.ask(len(U) + 1, told(problem, U, last=last)))
        U, last = np.concatenate([U, proposals[-1].u[None]]), proposals[-1].why
    run.close()
    return proposals


@cache
def first_run(solver: str, problem: str) -> list[Proposal]:
    return run_of(solver, PROBLEMS[problem](), asks=2 if problem == "constrained" else 1)


@pytest.fixture
def installed(solver: str) -> None:
    """Skip solvers whose optional package is not there."""
    try:
        first_run(solver, "unconstrained")
    except MissingExtra as error:
        pytest.skip(str(error))


@EVERYWHERE
@EVERY
@pytest.mark.usefixtures("installed")
def test_proposals_lie_in_the_cube(solver: str, problem: str) -> None:
    for proposal in first_run(solver, problem):
        assert proposal.u.shape == (PROBLEMS[problem]().d,)
        assert proposal.u.dtype == np.float64
        assert proposal.u.min() >= 0
        assert proposal.u.max() <= 1


@pytest.mark.slow
@EVERY
@pytest.mark.usefixtures("installed")
def test_the_same_seed_gives_the_same_proposals(solver: str) -> None:
    """What comes after the first proposal, the record decides: see below."""
    (two,) = run_of(solver, constrained(), asks=1)
    one = first_run(solver, "constrained")[0]
    assert np.array_equal(one.u, two.u)
    assert one.why.upper == two.why.upper


@pytest.mark.slow
@EVERY
@pytest.mark.usefixtures("installed")
def test_every_proposal_says_why_in_plain_data(solver: str) -> None:
    for proposal in first_run(solver, "constrained"):
        assert proposal.why.aim
        assert proposal.why.seconds >= 0
        json.dumps(asdict(proposal.why))


@EVERY
@pytest.mark.usefixtures("installed")
def test_pending_and_failed_points_are_tolerated_and_not_proposed_again(solver: str) -> None:
    problem = constrained()
    imagined = np.concatenate([Stream(8).uniform(2, problem.d), first_run(solver, "constrained")[0].u[None]])
    run = make(solver).start(problem, Stream(0))
    if not make(solver).parallel:
        pytest.skip("takes one trial at a time")
    U = start_of(problem, 2 * problem.d + 1)
    proposal = run.ask(len(U) + 4, told(problem, U, imagined))
    assert np.isfinite(proposal.u).all()
    assert (np.abs(imagined - proposal.u).max(1) > 1e-7).all()


@EVERY
@pytest.mark.usefixtures("installed")
def test_partial_rows_are_tolerated(solver: str) -> None:
    """Also when an output was hardly ever told."""
    problem = several()
    data = told(problem, start_of(problem, 6))
    Y = data.Y.copy()
    Y[2, 0] = Y[3, 1:] = math.nan
    Y[1:, 2] = math.nan
    run = make(solver).start(problem, Stream(0))
    proposal = run.ask(7, Dataset(data.numbers, data.U, Y, data.imagined))
    assert 0 <= proposal.u.min() <= proposal.u.max() <= 1


@EVERY
@pytest.mark.usefixtures("installed")
def test_the_record_alone_decides(solver: str) -> None:
    """A fresh run, given the record, proposes what the old one does."""
    problem = constrained()
    first, second = first_run(solver, "constrained")
    U = np.concatenate([start_of(problem, 5), first.u[None]])
    memory = json.loads(json.dumps(dict(first.why.memory)))
    fresh = make(solver).start(problem, Stream(0)).ask(7, told(problem, U, last=Why(first.why.aim, memory=memory)))
    assert np.array_equal(fresh.u, second.u)


@EVERY
@pytest.mark.usefixtures("installed")
def test_asking_changes_nothing_that_was_told(solver: str) -> None:
    """A penalty subtracted in place would change the record under the next one who reads it."""
    problem = constrained()
    data = told(problem, start_of(problem, 5), Stream(8).uniform(1, 2) if make(solver).parallel else None)
    before = [array.copy() for array in (data.U, data.Y, data.imagined, data.functions(problem))]
    run = make(solver).start(problem, Stream(0))
    run.ask(len(data.U) + len(data.imagined) + 1, data)
    run.close()
    after = (data.U, data.Y, data.imagined, data.functions(problem))
    assert all(np.array_equal(one, two) for one, two in zip(before, after, strict=True))


def generators() -> list[Any]:
    """The states of the global generators; torch's where it is installed."""
    states: list[Any] = [random.getstate(), np.random.get_state()[1].tolist()]
    return [*states, import_module("torch").get_rng_state().tolist()] if find_spec("torch") else states


@EVERY
@pytest.mark.usefixtures("installed")
def test_global_generators_are_left_alone(solver: str) -> None:
    """Without the checks of shapes, which draw random numbers of their own."""
    before = generators()
    config.update("jaxtyping_disable", True)
    try:
        study = Study(constrained(), seed=0, solver=solver)
        study.run(6)  # one beyond the initial design
        study.result()
    finally:
        config.update("jaxtyping_disable", False)
    assert generators() == before


@EVERY
def test_unknown_settings_are_refused_by_name(solver: str) -> None:
    with pytest.raises(SettingError, match=f"solver '{solver}' has no setting 'colour'"):
        make(solver, colour="red")


@EVERY
def test_settings_are_frozen_comparable_and_printable(solver: str) -> None:
    made = make(solver)
    assert isinstance(made, Solver)
    assert made == make(solver)
    assert make(made) is made
    assert hash(made.name) == hash(make(solver).name)
    assert type(made).__name__ in repr(made)
    with pytest.raises(AttributeError, match="cannot assign"):
        made.anything = 1  # type: ignore[attr-defined]


def test_names_are_known_by_the_solvers_themselves() -> None:
    for name in registry:
        assert name.startswith(make(name).name)


# ------------------------------------------------------------------------------------------------- CUQB never raises


def stated(blackbox: Callable[[Any], Any], **words: Any) -> Problem:
    base: dict[str, Any] = {
        "variables": {"a": (0.0, 1.0), "b": (0.0, 1.0)},
        "outputs": ["y", "z"],
        "blackbox": blackbox,
        "maximize": "y",
        "subject_to": {"limit": "z <= 0.5"},
        "noise": 0,
    }
    return Problem(**(base | words))


ODD: dict[str, Callable[[], Problem]] = {
    "constant outputs": lambda: stated(lambda x: [1.0, 0.25]),
    "outputs that are zero": lambda: stated(lambda x: [0.0, 0.0]),
    "huge outputs": lambda: stated(lambda x: [1e12 * x.a, -1e12 * x.b]),
    "tiny outputs": lambda: stated(lambda x: [1e-300 * (x.a - x.b), 1e-300 * x.b]),
    "huge and tiny outputs": lambda: stated(lambda x: [1e12 + x.a, 1e-12 * x.b]),
    "a step": lambda: stated(lambda x: [float(x.a > 0.3), float(x.b > 0.5)]),
    "a pole": lambda: stated(lambda x: [1.0 / (x.a - 0.31), x.b]),
    "no values of the objective": lambda: stated(lambda x: [-1.0 - x.a, x.b], maximize="sqrt(y)"),
    "learned noise of a constant": lambda: stated(lambda x: [1.0, 0.25], noise=None),
    "known noise of a constant": lambda: stated(lambda x: [1.0, 0.25], noise=0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", list(ODD))
def test_cuqb_asks_on_whatever_the_outputs_are(name: str) -> None:
    study = Study(ODD[name](), seed=0, solver=CUQB(search=SMALL))
    study.run(6)
    trial = study.ask()
    assert all(0.0 <= value <= 1.0 for value in trial.x.values())
    assert trial.why.aim != "fill"
    assert all(math.isfinite(value) for value in (*trial.why.lower, *trial.why.upper))
    result = study.result()
    assert result.x is not None
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("contradict", [0.0, 1e-3, 10.0])
def test_cuqb_survives_duplicates_among_old_data(contradict: float) -> None:
    """The same point again and again, with the same or with contradicting outputs of an exact black box."""
    problem = stated(lambda x: [x.a, x.b])
    study = Study(problem, seed=0)
    for i, a in enumerate([0.2, 0.2, 0.2, 0.8, 0.8, 0.5]):
        study.add({"a": a, "b": 0.4}, {"y": a + contradict * i, "z": 0.4})
    trial = study.ask()
    assert all(0.0 <= value <= 1.0 for value in trial.x.values())
    assert trial.why.aim != "fill"
    assert study.result().x is not None


@pytest.mark.slow
def test_cuqb_has_no_value_that_is_not_a_number_after_failures() -> None:
    calls: list[Any] = []

    def blackbox(x: Any) -> Sequence[float]:
        calls.append(x)
        return [x.a, x.b] if len(calls) % 3 == 1 else [math.nan, 1.0]

    study = Study(stated(blackbox), seed=0)
    study.run(9)
    trial = study.ask()
    assert all(math.isfinite(value) for value in trial.x.values())
    assert all(math.isfinite(value) for value in (*trial.why.lower, *trial.why.upper))


def test_cuqb_records_aim_bounds_active_constraints_rung_seconds_and_memory() -> None:
    study = Study(constrained(), seed=0)
    study.run(10)
    why = study.trials[7].why
    explored = [trial for trial in study.trials if trial.why.aim == "explore"]
    assert why.aim in ("verify", "spread", "explore")
    assert len(why.lower) == len(why.upper) == 3
    assert all(low <= high for low, high in zip(why.lower, why.upper, strict=True))
    assert set(why.active) <= {"black", "white"}
    assert why.rung == "plain" or why.rung.startswith("jitter")
    assert why.seconds > 0
    assert len(why.memory["choices"]) == 1
    assert explored
    for trial in explored:
        assert trial.why.optimistic is not None
        assert trial.why.margin is None  # feasible points are known
        assert trial.x.a + trial.x.b <= 4 + 1e-8


@pytest.mark.slow
def test_cuqb_holds_white_constraints_on_every_proposal_also_when_it_only_spreads() -> None:
    """A white set without volume, and an exact black box that is soon known completely."""
    problem = Problem(
        {"a": (0.0, 4.0), "b": (0.0, 4.0)},
        ["y"],
        blackbox=lambda x: x.a,
        maximize="y - 0.1*b**2",
        subject_to={"up": "a + b <= 3", "down": "a + b >= 3"},
        noise=0,
    )
    study = Study(problem, seed=0)
    study.run(12)
    for trial in study.trials[5:]:
        assert abs(trial.x.a + trial.x.b - 3) <= 1e-8, trial.why.aim


def test_cuqb_falls_back_to_a_space_filling_point_and_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The last rung of the ladder: linear algebra gives up altogether. Strict runs raise instead."""

    def broken(*args: Any, **words: Any) -> Any:
        raise np.linalg.LinAlgError("no factorization")

    problem = constrained()
    data = told(problem, start_of(problem, 5))
    monkeypatch.setattr(lapack, "dpotrf", broken)
    proposal = CUQB().start(problem, Stream(0)).ask(6, data)
    assert proposal.why.aim == "fill"
    assert "no factorization" in proposal.why.rung
    assert "space-filling" in caplog.text
    x = problem.from_unit(proposal.u)
    assert float(x[0] + x[1]) <= 4
    assert float(np.abs(data.U - proposal.u).max(1).min()) > 0.1
    with pytest.raises(np.linalg.LinAlgError, match="no factorization"):
        CUQB(strict=True).start(problem, Stream(0)).ask(6, data)
