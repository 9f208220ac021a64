"""Values and slopes are functions of the point alone, ties are broken by order, proposals stay inside of the box."""

import math
from typing import Any

import numpy as np
import pytest
from numpy import ndarray

from pied import Problem, Study, Variable
from pied.bounds.believer import Believer, White
from pied.bounds.composite import Composite
from pied.bounds.success import SuccessModel
from pied.problem.formula import Formula, Scope
from pied.records.trial import Dataset
from pied.rng import Stream
from pied.search.enumeration import SHORTLIST, Enumeration
from tiny import fast, hill, without


def told(problem: Problem, count: int) -> Dataset:
    """What a black box said at a few points."""
    U = Stream(3).uniform(count, problem.d)
    Y = np.stack([problem.evaluate(problem.named_x(problem.from_unit(u))) for u in U])
    return Dataset(tuple(range(1, count + 1)), U, Y, U[:0])


def composed(**words: Any) -> Composite:
    """A belief about y = a - 1, composed with functions that are not finite, or not smooth, in a part of the box."""
    problem = Problem({"a": (0.0, 2.0), "b": (0.0, 2.0)}, ["y"], blackbox=lambda x: x.a - 1.0, noise=0, **words)
    data = told(problem, 6)
    believer = Believer()
    return believer.bound(problem, data, believer.fit(problem, data), Stream(1))


ROUGH: list[dict[str, Any]] = [
    {"maximize": "sqrt(b) + y", "subject_to": {"c": "log(y) >= -1", "w": "b^0.5 + 0*a >= 0.1"}},
    {"maximize": "sqrt(b) + y", "subject_to": {"c": "log(y) + log(a - 1) >= -1"}},
]


@pytest.mark.parametrize("words", ROUGH, ids=["monotone", "sampled"])
def test_slopes_do_not_depend_on_what_was_asked_before_or_beside(words: dict[str, Any]) -> None:
    """At b = 0 a square root has no finite slope; where y < 0 its logarithm is not finite."""
    U = np.array([[0.8, 0.0], [0.9, 0.5], [0.1, 0.0], [0.05, 0.3]])
    fresh, used = composed(**words), composed(**words)
    levels = (0.95,) * used.problem.k
    used.values_and_slopes(U[::-1], levels)
    together, slopes = used.values_and_slopes(U, levels)
    for row, u in enumerate(U):
        alone, own = fresh.values_and_slopes(u[None], levels)
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(own[0], slopes[row], rtol=1e-6, atol=1e-9)
    assert bool(np.isfinite(slopes).all())


def test_slopes_of_outcomes_do_not_depend_on_their_neighbours() -> None:
    composite = composed(**ROUGH[0])
    U = np.array([[0.8, 0.0], [0.1, 0.0]])
    xi = np.zeros((2, 1))
    _, together, by_xi = composite.outcomes_and_slopes(U, xi)
    for row in range(2):
        _, alone, own = composite.outcomes_and_slopes(U[row : row + 1], xi[:1])
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(own[0], by_xi[row], rtol=1e-9, atol=1e-12)


def test_white_values_do_not_depend_on_their_neighbours() -> None:
    problem = hill(subject_to={"far enough": "y >= 1", "pole": "log(a - 1) + b >= 3"})
    white = White(problem, problem.white)
    U = np.array([[0.1, 0.5], [0.5, 0.5], [0.2500001, 0.0]])
    together = white.values(U)
    assert bool((np.concatenate([white.values(u[None]) for u in U]) == together).all())
    assert float(together[0, 1]) < 0.0


def test_what_is_not_finite_anywhere_is_broken_everywhere() -> None:
    problem = hill(subject_to={"far enough": "y >= 1", "pole": "log(0*a - 1) >= 0"})
    assert bool((White(problem, problem.white).values(Stream(0).sobol(8, 2))[:, 1] < 0).all())


POWERS = ["a^b", "a^(2*b)", "a^0.5", "a^1.5", "a^0", "2^b", "(a - 1)^b", "b^a", "a^-1", "a^2"]


@pytest.mark.parametrize("formula", POWERS)
def test_slopes_of_powers_are_those_of_autograd_also_at_zero(formula: str) -> None:
    torch = pytest.importorskip("torch")
    grid = np.array([0.0, 0.5, 1.0, 2.0])
    X = np.array([[a, b] for a in grid for b in (*grid, *-grid[1:])])
    points = torch.tensor(X, requires_grad=True)
    a, b = points.T
    (wanted,) = torch.autograd.grad((eval(formula.replace("^", "**"), {"a": a, "b": b}) + 0 * a + 0 * b).sum(), points)
    program = Formula(f"{formula} + 0*a + 0*b", Scope(("a", "b"), ("y",), {})).program
    with np.errstate(all="ignore"):
        _, back = program.traced(X, np.ones((1, len(X), 1)))
        found, _ = back(np.ones(len(X)))
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-12, atol=1e-12)


class Flat:
    """Two levels of the objective, no constraint."""

    k, white = 1, ()

    def values(self, U: ndarray) -> ndarray:
        return (U[:, :1] >= 0.5).astype(float)

    def values_and_slopes(self, U: ndarray) -> tuple[ndarray, ndarray]:
        return self.values(U), np.zeros((len(U), 1, U.shape[1]))


@pytest.mark.parametrize("count", [SHORTLIST - 1, 3 * SHORTLIST, 50 * SHORTLIST])
def test_the_first_of_equal_candidates_wins(count: int) -> None:
    U = np.linspace(0.0, 1.0, count)[:, None]
    some = Enumeration(U, np.ones(count, dtype=bool))
    first = int((U[:, 0] >= 0.5).argmax())
    ones = np.ones(1)
    assert np.array_equal(some.solve(Flat(), ones).u, U[first])
    assert np.array_equal(some.without(np.array([first])).solve(Flat(), ones).u, U[first + 1])


@pytest.mark.slow
def test_the_model_of_success_is_fitted_once_an_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the level promises nothing and the search goes on with wider bounds, twice."""
    problem = hill()
    study = Study(problem, seed=0, solver=fast(**without("probe")))
    for _ in range(12):
        trial = study.ask()
        if trial.x.a < 0.5:
            study.fail(trial, "too cold")
        else:
            study.tell(trial, problem.evaluate(trial.x).tolist())
    study.fail(study.ask(), "too hot")
    fits, fit = [], SuccessModel.fit
    monkeypatch.setattr(SuccessModel, "fit", lambda *given, **words: fits.append(1) or fit(*given, **words))
    monkeypatch.setattr("pied.solvers.moves.widen.LEAST_GAIN", math.inf)  # every ask widens
    monkeypatch.setattr("pied.solvers.cuqb.CUQBRun._verifies", lambda *_: False)
    assert study.ask().why.aim in ("widen", "spread")
    assert len(fits) == 1


# ---------------------------------------------------------------------------------------------------------- the box

BOXES = [
    (1e6, 1e6 + 1.0),
    (-1e6 - 1.0, -1e6),
    (0.1, 0.3),
    (1.0, 1.0 + 1e-6),
    (1e-300, 3e-300),
    (-1e300, 1e300),
    (-3.3, 7.7e15),
    (273.15, 373.15),
]


@pytest.mark.parametrize(("lo", "hi"), BOXES)
@pytest.mark.parametrize("log", [False, True])
def test_points_never_lie_outside_of_the_box(lo: float, hi: float, log: bool) -> None:
    if log and lo <= 0:
        pytest.skip("a logarithmic scale needs a positive variable")
    problem = Problem({"a": Variable(lo, hi, log=log)}, ["y"], maximize="y")
    tiny = 10.0 ** (-20.0 * Stream(1).uniform(4096))  # rounding shows near the ends
    ends = np.array([0.0, 1.0])
    U = np.concatenate([Stream(0).uniform(4096), tiny, 1.0 - tiny, ends])[:, None]
    X = problem.from_unit(U)
    assert float(X.min()) == lo
    assert float(X.max()) == hi
    assert all(lo <= problem.natural(u).item() <= hi for u in U[-50:])


@pytest.mark.parametrize(("lo", "hi"), BOXES[:4])
def test_staying_inside_keeps_the_derivative(lo: float, hi: float) -> None:
    problem = Problem({"a": (lo, hi)}, ["y"], maximize="y")
    U = np.concatenate([Stream(0).uniform(256), [0.0, 1e-17, 1.0]])[:, None]
    np.testing.assert_allclose(problem.unit_slopes(problem.from_unit(U)), hi - lo, rtol=1e-12)


@pytest.mark.slow
def test_proposals_never_lie_outside_of_a_nasty_box() -> None:
    lo, hi = 1e6, 1e6 + 1.0
    problem = Problem(
        {"a": (lo, hi), "b": (lo, hi)}, ["y"], blackbox=lambda x: x.a - x.b, maximize="y", noise=0,
    )  # fmt: skip
    result = Study(problem, seed=0, solver=fast()).run(12)
    assert all(lo <= value <= hi for trial in result.trials for value in trial.x.values())
