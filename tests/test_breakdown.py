"""What numbers break leads to a space-filling point; what is a mistake is seen."""

from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from pied import CUQB, Problem, SolverDone, Study
from pied.bounds.quantile import shift
from pied.errors import NumericalError
from pied.gp import MOST_TOLD
from pied.gp.factors import roots
from pied.records.trial import Dataset, deviations
from pied.rng import Stream
from pied.search.sqp import minimize
from pied.solvers import make
from pied.solvers.base import BREAKDOWNS
from pied.solvers.cuqb import CUQBRun
from pied.solvers.smooth import sample_deviation
from tiny import fast, few, hill, unchecked


def record(Y: ndarray, U: ndarray | None = None) -> Dataset:
    """Outputs at points of the unit square."""
    U = Stream(1).uniform(len(Y), 2) if U is None else U
    return Dataset(tuple(range(1, len(Y) + 1)), U, Y, U[:0])


def ask(problem: Problem, data: Dataset, solver: Any) -> Any:
    """The proposal after these data."""
    return solver.start(problem, Stream(0)).ask(len(data.U) + 1, data)


pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # that numbers overflow is the point
USUAL = Stream(2).uniform(7, 1) * 5.0


@pytest.mark.parametrize(
    "error",
    [
        np.linalg.LinAlgError("singular"),
        NumericalError("singular"),
        FloatingPointError("singular"),
        OverflowError("singular"),
    ],
    ids=lambda error: type(error).__module__ + "." + type(error).__name__,
)
def test_a_numerical_breakdown_gives_a_space_filling_point_logged_and_written_down(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def breaks(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(CUQBRun, "_chosen", breaks)
    proposal = ask(hill(), record(USUAL), fast(verify_every=None))
    assert proposal.why.aim == "fill"
    assert proposal.why.rung == "space-filling: singular"
    assert "space-filling" in caplog.text
    with pytest.raises(type(error), match="singular"):
        ask(hill(), record(USUAL), fast(verify_every=None, strict=True))


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError, KeyError, IndexError, AssertionError])
def test_a_mistake_in_a_solver_is_seen(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: Any) -> Any:
        raise error("a slip")

    monkeypatch.setattr(CUQBRun, "_chosen", mistaken)
    with pytest.raises(error, match="a slip"):
        ask(hill(), record(USUAL), fast(verify_every=None))


@pytest.mark.parametrize("error", [TypeError, ValueError, RuntimeError])
def test_a_mistake_in_the_users_function_is_logged_and_its_points_count_as_worst(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    is_broken = []

    def objective(x: Any, y: Any) -> Any:
        if is_broken:
            raise error("a slip")
        return float(y.y) * x.a  # needs values: it cannot be traced, and is called every time

    study = Study(hill(minimize=objective), seed=0, solver=fast())
    study.run(5)
    is_broken.append(True)
    study.ask()
    assert f"'objective' raised {error.__name__} (a slip)" in caplog.text
    assert "count as worst" in caplog.text


def test_what_ends_a_search_is_no_breakdown() -> None:
    assert not issubclass(SolverDone, BREAKDOWNS)
    assert not {ValueError, RuntimeError, TypeError} & set(BREAKDOWNS)


def test_rungs_are_counted_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: Any) -> Any:
        raise NumericalError("singular")

    study = Study(hill(), seed=0, solver=fast(verify_every=None))
    study.run(5)
    assert study.result().rungs == {}
    monkeypatch.setattr(CUQBRun, "_chosen", breaks)
    study.run(2)
    result = study.result()
    assert result.rungs == {"space-filling": 2}
    assert result.to_dict()["rungs"] == {"space-filling": 2}
    assert result.to_dict()["trials"][-1]["rung"] == "space-filling: singular"


W = Stream(5).uniform(7, 2)
POINTS = Stream(6).uniform(7, 2)
NASTY: dict[str, Dataset] = {
    "large": record(1e300 * (W - 0.5)),
    "largest": record(1e308 * np.sign(W - 0.5)),
    "small": record(1e-300 * (W - 0.5)),
    "denormal": record(5e-324 * np.ones_like(W)),
    "mixed": record((W - 0.5) * np.array([1e300, 1e-300])),
    "constant": record(np.zeros_like(W)),
    "one outlier": record(np.concatenate([W[1:], np.full_like(W[:1], 1e300)])),
    "contradictions": record(W, POINTS[:1].repeat(7, 0)),
    "close together": record(W, 0.5 + 1e-16 * POINTS),
    "corners": record(W, (POINTS > 0.5).astype(np.float64)),
    "eighty decades": record(np.exp(200.0 * (W - 0.5))),
    "an offset": record(1e15 + W),
    "parts missing": record(np.where(W > 0.7, np.nan, W)),
    "two points": record(W[:2]),
}
SHAPES: dict[str, dict[str, Any]] = {
    "affine": {"maximize": "y", "subject_to": {"c": "z >= 0"}},
    "curved": {"maximize": "y*z - y^2", "subject_to": {"c": "z*y >= 1"}},
    "poles": {"maximize": "exp(y) + log(a)", "subject_to": {"c": "1/z >= 0.1", "w": "a + b <= 1.5"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", few(["curved", "affine", "poles"], 1))
@pytest.mark.parametrize("name", NASTY)
@unchecked()
def test_ask_never_raises_on_nasty_data(name: str, shape: str) -> None:
    """Where a strict run breaks down it says so in the words of linear algebra."""
    for noise in (0, None):
        problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y", "z"], noise=noise, **SHAPES[shape])
        proposal = ask(problem, NASTY[name], fast())
        assert np.isfinite(proposal.u).all()
        assert ((proposal.u >= 0) & (proposal.u <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["epbo", "eic-cf", "bois", "cobalt"])
@pytest.mark.parametrize("name", ["largest", "denormal", "contradictions", "one outlier"])
@unchecked()
def test_no_solver_with_a_belief_raises_on_nasty_data(name: str, solver: str) -> None:
    problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y", "z"], noise=0, **SHAPES["affine"])
    proposal = ask(problem, NASTY[name], make(solver, search=fast().search))
    assert np.isfinite(proposal.u).all()


def test_the_paper_does_not_raise_on_nasty_data() -> None:
    problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y", "z"], noise=0, **SHAPES["affine"])
    proposal = ask(problem, NASTY["largest"], CUQB.paper())
    assert np.isfinite(proposal.u).all()


def test_a_local_solve_whose_slopes_overflow_ends_without_raising() -> None:
    """A quadratic subproblem of infinite entries is an inconsistent one; SciPy's solver refuses it with ValueError."""

    def evaluate(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        total = Z.sum(1, keepdims=True)
        f = np.concatenate([total, 1e308 * (total - 0.6)], 1)
        return f, np.tile([[1.0, 1.0], [1e308, 1e308]], (len(Z), 1, 1))

    found = minimize(evaluate, np.full((2, 2), 0.25), np.zeros(2), np.ones(2), 5)
    assert bool(np.isfinite(found.z).all())


@pytest.mark.slow
@pytest.mark.parametrize("wild", [1e160, -1e300, 1.7e308])
@pytest.mark.parametrize("noise", [0, None])
@unchecked()
def test_one_wild_value_does_not_end_a_study(wild: float, noise: float | None) -> None:
    """A slip of the keyboard may be corrected later; until then, points are proposed and answers given."""
    problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y", "z"], noise=noise, **SHAPES["affine"])
    study = Study(problem, seed=1, solver=fast())
    for row, (u, w) in enumerate(zip(POINTS, W, strict=True)):
        study.add(u.tolist(), [wild if row == 3 else float(w[0]), float(w[1])])
    proposals = [study.ask(again=False) for _ in range(3)]
    assert "fill" not in {trial.why.aim for trial in proposals}
    assert study.result().x is not None


def test_nothing_is_printed_about_matrices_without_rows(capfd: pytest.CaptureFixture[str]) -> None:
    R, failed = roots(np.zeros((2, 0, 0)))
    assert (R.shape, failed.tolist()) == ((2, 0, 0), [False, False])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-500, 2.0**600, 2.0**1000])
def test_bounds_and_deviations_are_the_same_in_all_units(unit: float) -> None:
    values = Stream(3).uniform(7, 5)
    bound, slopes = shift(values, 0.9)
    other, same = shift(values * unit, 0.9)
    assert other == pytest.approx(bound * unit, rel=1e-13)
    assert same == pytest.approx(slopes, rel=1e-13)
    assert sample_deviation(values * unit, unit) == pytest.approx(unit * sample_deviation(values, 1.0), rel=1e-13)
    assert deviations(values * unit) == pytest.approx(unit * deviations(values), rel=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0, None])
@pytest.mark.parametrize("wild", few([(1e308, -1e308), (1e160,), (-1e300,)], 1))
@pytest.mark.filterwarnings("error")
@unchecked()
def test_sums_and_differences_of_wild_values_print_no_warning(wild: tuple[float, ...], noise: float | None) -> None:
    problem = Problem({"a": (0, 1), "b": (0, 1)}, ["y", "z"], maximize="y", subject_to={"l": "z <= 1"}, noise=noise)
    study = Study(problem, seed=0)
    for count in range(13):
        trial = study.ask()
        a, b = trial.x["a"], trial.x["b"]
        values = dict(enumerate(wild, 3))
        study.tell(trial, {"y": values.get(count, 20 * a + 10 * b - 15 * a * a), "z": a + 0.7 * b}, anyway=True)
    result = study.result()
    assert result.x is not None
    assert str(study)
    assert study.what_if({"l": 1.1}).u is not None


def test_of_too_many_points_a_proposal_says_that_it_rests_on_a_part(caplog: pytest.LogCaptureFixture) -> None:
    """And it still finds what they show."""
    problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y"], maximize="y", noise=0)
    U = Stream(0).sobol(MOST_TOLD + 40, 2)
    Y = -((U - [0.3, 0.6]) ** 2).sum(1, keepdims=True)
    proposal = ask(problem, record(Y, U), CUQB())
    assert f"rests on {MOST_TOLD} of {len(U)}" in caplog.text
    assert proposal.why.rung.startswith("part of the points: ")
    assert np.abs(proposal.u - [0.3, 0.6]).max() < 0.05
