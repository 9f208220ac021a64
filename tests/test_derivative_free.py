"""Random and Sobol points, and derivative-free routines: the same evaluations in the same order as the library."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import cma
import numpy as np
import pybobyqa
import pytest
from jaxtyping import Float64
from numpy import ndarray
from scipy import optimize

from pied import MissingExtra, Problem, SettingError, Status, Study
from pied.rivals.derivative_free import CMAES, Bobyqa, Direct
from pied.rivals.driven import PAPER_PENALTY, Merit
from pied.rng import Stream
from pied.solvers import make
from pied.solvers.base import Solver
from pied.suite import get
from tiny import hill, parabola, points, waves

PROBLEMS = {"parabola": parabola, "hill": hill, "waves": waves}
EVALUATIONS = 30
SAME = 1e-10
"""Points go to natural units and back, and a routine's arithmetic may magnify the last bits a little."""

Function = Callable[[Any], float]
Library = Callable[[Function, Any, int], None]


def asked(problem: Problem, solver: Solver, evaluations: int, seed: int = 0) -> Study:
    study = Study(problem, solver=solver, seed=seed)
    for _ in range(evaluations):
        trial = study.ask()
        study.tell(trial, problem.evaluate(trial.x))
    return study


class Enough(Exception):
    """Ends a library's loop in a test."""


def called(problem: Problem, merit: Merit, library: Library, evaluations: int) -> Float64[ndarray, "e d"]:
    """Points that a library evaluates, called directly, with the initial design of seed 0 as its start."""
    initial = asked(problem, make("random"), 2 * problem.d + 1).data
    f = initial.functions(problem)
    seen: list[Any] = []

    def function(u: Any) -> float:
        if len(seen) == evaluations:
            raise Enough
        u = np.array(u, dtype=np.float64).reshape(-1)
        seen.append(u)
        x = problem.from_unit(np.clip(u, 0, 1)[None])
        y = problem.evaluate(x[0].tolist())
        values = np.stack([g.reshape(-1)[0] for g in problem.g(x, y[None, None])])[None]
        return float(merit.of(problem, values, f)[0])

    best = initial.U[int(np.argmin(merit.of(problem, f, f)))]
    with pytest.raises(Enough):
        library(function, best, problem.d)
    return np.array(seen)


@pytest.mark.parametrize("solver", [Direct(), Direct.paper()], ids=["best", "paper"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_direct_is_the_library(problem: str, solver: Direct) -> None:
    def library(function: Function, best: Any, d: int) -> None:
        optimize.direct(function, [(0.0, 1.0)] * d, maxfun=10_000)

    stated = PROBLEMS[problem]()
    expected = called(stated, Merit(solver.penalty, solver.scaled), library, EVALUATIONS)
    first = 2 * stated.d + 1
    U = asked(stated, solver, first + EVALUATIONS).data.U[first:]
    assert U[0].tolist() == pytest.approx([0.5] * stated.d)
    assert np.allclose(U, expected, rtol=0, atol=SAME)


@pytest.mark.parametrize("solver", [Bobyqa(), Bobyqa.paper()], ids=["best", "paper"])
@pytest.mark.parametrize("problem", ["hill", "waves"])
def test_bobyqa_is_the_library(problem: str, solver: Bobyqa) -> None:
    """From the best initial point, which an exact black box is not asked for again."""

    def library(function: Function, best: Any, d: int) -> None:
        pybobyqa.solve(
            function,
            best,
            bounds=(np.zeros(d), np.ones(d)),
            rhobeg=solver.step,
            seek_global_minimum=solver.restarts,
            maxfun=10_000,
            do_logging=False,
        )

    stated = PROBLEMS[problem]()
    evaluations = 15  # before it converges: restarts draw random directions
    expected = called(stated, Merit(solver.penalty, solver.scaled), library, evaluations)
    first = 2 * stated.d + 1
    U = asked(stated, solver, first + evaluations - 1).data.U
    assert any(np.allclose(expected[0], u, rtol=0, atol=SAME) for u in U[:first])
    assert np.allclose(U[first:], expected[1:], rtol=0, atol=1e-7)  # its models magnify the last bits


@pytest.mark.parametrize(
    "solver", [CMAES(), CMAES.paper(), CMAES(step=0.1, population=5)], ids=["best", "paper", "own"]
)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_cma_es_is_the_library(problem: str, solver: CMAES) -> None:
    stated = PROBLEMS[problem]()
    first = 2 * stated.d + 1
    normal = Stream(0).at("loop", first + 1).generator()

    def library(function: Function, best: Any, d: int) -> None:
        options = {
            "bounds": [0, 1],
            "seed": np.nan,
            "randn": lambda *shape: normal.standard_normal(shape),
            "verbose": -9,
        } | ({"popsize": solver.population} if solver.population else {})
        strategy = cma.CMAEvolutionStrategy(best, solver.step, options)
        while not strategy.stop():
            generation = strategy.ask()
            strategy.tell(generation, [function(u) for u in generation])

    expected = called(stated, Merit(solver.penalty, solver.scaled), library, EVALUATIONS)
    U = asked(stated, solver, first + EVALUATIONS).data.U[first:]
    assert np.allclose(U, expected, rtol=0, atol=SAME)


@pytest.mark.parametrize("name", ["direct", "bobyqa", "cma-es", "snobfit"])
def test_units_of_the_variables_do_not_matter(name: str) -> None:
    """First steps and radii are of the box: in natural units they would be tiny here and huge there."""

    def stated(unit: float) -> Problem:
        return parabola(
            variables={"x": (0.0, 3.0 * unit)}, blackbox=lambda x: 1.0 - (x.x / unit - 1.3) ** 2, maximize="y"
        )

    one, two = (asked(stated(unit), make(name), 20).data.U for unit in (1.0, 1024.0))
    assert np.allclose(one, two, rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["direct", "bobyqa", "cma-es"])
def test_the_global_generator_of_numpy_is_untouched(name: str) -> None:
    np.random.seed(3)
    before = np.random.get_state()
    asked(waves(), make(name), 40)
    after = np.random.get_state()
    assert before[2:] == after[2:]
    assert (before[1] == after[1]).all()


@pytest.mark.parametrize("name", ["direct", "bobyqa", "cma-es", "random", "sobol"])
def test_the_seed_decides_and_the_initial_design_is_shared(name: str) -> None:
    one, two, other = (asked(hill(), make(name), 12, seed) for seed in (0, 0, 1))
    assert points(one.trials) == points(two.trials)
    assert points(one.trials) != points(other.trials)
    assert points(one.trials[:5]) == points(asked(hill(), make("random"), 5).trials)


def test_bobyqa_without_restarts_converges_and_is_done() -> None:
    study = Study(parabola(), solver=Bobyqa.paper(), seed=0)
    result = study.run(60)
    assert result.status is Status.DONE
    assert result.value == pytest.approx(0.8725, abs=1e-9)
    assert study.used < 30


@pytest.mark.slow
@pytest.mark.parametrize(("name", "error"), [("direct", 1e-2), ("bobyqa", 1e-6), ("cma-es", 1e-2)])
def test_each_finds_the_optimum_of_a_smooth_problem(name: str, error: float) -> None:
    benchmark = get("booth")
    f = asked(benchmark.problem, make(name), 80).data.functions(benchmark.problem)[:, 0]
    assert float(benchmark.best - f.max()) / abs(benchmark.best - benchmark.median) < error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bobyqa", "cma-es", "direct"])
def test_restarts_of_bobyqa_and_generations_replay(name: str) -> None:
    """A long record is given back to a fresh run: past convergence, random restarts included."""
    study = asked(parabola(), make(name), 45)
    run = make(name).start(study.problem, Stream(0))
    proposal = run.ask(46, study.data)
    run.close()
    trial = study.ask()
    expected = study.problem.to_unit(np.array([trial.x.x]))
    assert proposal.u.tolist() == pytest.approx(expected.tolist(), abs=1e-12)


@pytest.mark.slow
def test_the_libraries_are_quiet(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("direct", "bobyqa", "cma-es"):
            for problem in (parabola(), waves(noise=0.1)):
                asked(problem, make(name), 14)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "library", "command"),
    [
        ("bobyqa", "pybobyqa", r"Py-BOBYQA: pip install .*\[bobyqa\]\""),
        ("cma-es", "cma", r"pip install .*\[bench\]\""),
    ],
)
def test_a_missing_library_is_named_with_its_command(
    name: str, library: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtra, match=f"solver '{name}' needs .*{command}"):
        Study(parabola(), solver=name)


def test_settings_out_of_range_are_refused() -> None:
    for words, message in (({"step": 0.0}, "step is a radius"), ({"step": 0.6}, "step is a radius")):
        with pytest.raises(SettingError, match=message):
            make("bobyqa", **words)
    with pytest.raises(SettingError, match="step is a standard deviation"):
        make("cma-es", step=2.0)
    with pytest.raises(SettingError, match="population counts"):
        make("cma-es", population=2)
    with pytest.raises(SettingError, match="penalty is a positive weight"):
        make("direct", penalty=-1.0)


def test_the_form_of_the_paper_has_its_penalty() -> None:
    for name in ("direct", "bobyqa", "cma-es", "snobfit"):
        solver: Any = make(f"{name}-paper")
        assert (solver.penalty, solver.scaled) == (PAPER_PENALTY, False)
        assert solver == type(solver).paper()


def test_sobol_points_are_spread_better_than_random_ones() -> None:
    def discrepancy(name: str) -> float:
        from scipy.stats import qmc

        return float(qmc.discrepancy(asked(hill(), make(name), 5 + 32).data.U[5:]))

    assert discrepancy("sobol") < 0.5 * discrepancy("random")
