"""The slopes of every acquisition by differences: on curved functions, warped outputs, ranges and poles."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from pied import Problem, Variable
from pied.bounds.believer import Believer
from pied.bounds.composite import Composite
from pied.bounds.estimator import Estimator
from pied.gp.choices import Model
from pied.rivals.improvement import ClosedForm
from pied.rivals.linearized import DeltaBounds, Trusting
from pied.rivals.optimism import PenalizedQuantile
from pied.rng import Stream
from pied.solvers.acquisition import Acquisition, Points
from pied.solvers.sampled import Sampled
from rivals import slopes_by_difference, told
from tiny import parabola, waves


def believer(warp: str, kind: str = "harrell-davis") -> Believer:
    model = Model(("squared exponential",), ("constant",), (warp,))
    return Believer(model, Estimator(kind=kind, samples=64, screening=32, closed_forms=False))


def composed(problem: Problem, how: Believer) -> Composite:
    data = told(problem)
    return how.bound(problem, data, how.fit(problem, data), Stream(0))


def curved(**words: object) -> Problem:
    """Curved in outputs and variables together, with a logarithmic axis, a range and a white constraint."""
    stated = {
        "variables": {"s": (0.0, 1.0), "t": Variable(0.1, 10.0, log=True)},
        "blackbox": lambda x: [np.sin(3 * x.s) + 1.2, np.cos(x.t / 3) + 1.5, x.s * np.sqrt(x.t)],
        "maximize": "p*q*s + r^2*exp(t/10)",
        "subject_to": {"sum": "p^2 + q*s >= 0.7", "root": "sqrt(r + 1.5) <= 1.2 + s*t", "white": "s + t^2 <= 40"},
        "ranges": {"r": (-1.0, None)},
    }
    return waves(**(stated | words))


SCALES = np.array([2.0, 0.5, 3.0, 0.7])
SAMPLED = (64, 32, 0.2)
MAKERS: dict[str, Callable[[Composite], Acquisition]] = {
    "eic-cf": lambda C: Sampled(C, 0.8, SCALES, *SAMPLED, is_relative=True, is_log=False),
    "eic-cf, natural units": lambda C: Sampled(C, 0.8, SCALES, *SAMPLED, is_relative=False, is_log=False),
    "eic-cf, nothing feasible": lambda C: Sampled(C, None, SCALES, *SAMPLED, is_relative=True, is_log=False),
    "logei-cf": lambda C: Sampled(C, 0.8, SCALES, *SAMPLED, is_relative=True, is_log=True),
    "logei-cf, nothing feasible": lambda C: Sampled(C, None, SCALES, *SAMPLED, is_relative=True, is_log=True),
    "bois": lambda C: DeltaBounds(C, 1.64, 1.0),
    "cobalt": lambda C: Trusting(C, 0.8, SCALES, *SAMPLED, 1.3),
    "cobalt, nothing feasible": lambda C: Trusting(C, None, SCALES, *SAMPLED, 1.3),
    "merit": lambda C: PenalizedQuantile(C, SCALES, 0.9, 2.0, True),
    "merit, white penalized": lambda C: PenalizedQuantile(C, SCALES, 0.9, 2.0, False),
}


def check(acquisition: Acquisition, U: np.ndarray) -> None:
    """Compare slopes with differences, and values with those of the same samples without slopes."""
    values, slopes = acquisition.values_and_slopes(U)
    around = slopes_by_difference(lambda V: acquisition.values_and_slopes(V)[0], U)
    np.testing.assert_allclose(slopes, around, rtol=1e-4, atol=1e-6 * np.abs(around).max())
    assert values.shape == (len(U), acquisition.k)
    assert acquisition.values(U).shape == values.shape


@pytest.mark.parametrize("warp", ["none", "shifted log"])
@pytest.mark.parametrize("name", MAKERS)
def test_slopes_of_composite_acquisitions_equal_differences(name: str, warp: str) -> None:
    check(MAKERS[name](composed(curved(), believer(warp))), Stream(3).sobol(6, 2) * 0.9 + 0.05)


def test_slopes_of_the_merit_by_the_soft_sort_equal_differences() -> None:
    U = Stream(3).sobol(6, 2) * 0.9 + 0.05
    check(MAKERS["merit"](composed(curved(), believer("none", "soft"))), U)


@pytest.mark.parametrize("best", [0.3, None])
def test_slopes_of_improvement_on_a_saturating_output_equal_differences(best: float | None) -> None:
    front = parabola(blackbox=lambda x: math.tanh(8 * x.x - 15), maximize="y*x^2", subject_to={"black": "y <= 0.5"})
    C = composed(front, believer("logit"))
    assert [warp.name for warp in C.belief.warps] == ["logit"]
    U = np.array([[0.3], [0.58], [0.64], [0.9]])
    check(Sampled(C, best, SCALES, *SAMPLED, is_relative=True, is_log=True), U)


@pytest.mark.parametrize("warp", ["none", "shifted log"])
@pytest.mark.parametrize("is_log", [True, False])
@pytest.mark.parametrize("best", [1.5, None])
def test_slopes_of_the_closed_form_equal_differences(best: float | None, is_log: bool, warp: str) -> None:
    C = composed(curved().folded(), believer(warp))
    check(ClosedForm(C, C.belief.warps, best, SCALES, is_log), Stream(3).sobol(6, 2) * 0.9 + 0.05)


def test_slopes_where_the_objective_is_white_equal_differences() -> None:
    problem = parabola(blackbox=lambda x: math.sin(6 * x.x), maximize="x^2", subject_to={"black": "y >= 0.5"})
    U = np.array([[0.3], [0.6], [0.9]])
    C = composed(problem, believer("none"))
    for name in ("eic-cf", "cobalt", "bois", "merit"):
        check(MAKERS[name](C), U)
    folded = composed(problem.folded(), believer("none"))
    check(ClosedForm(folded, folded.belief.warps, 1.0, SCALES), U)


@pytest.mark.parametrize("name", MAKERS)
def test_samples_that_are_not_finite_count_as_worst_and_leave_finite_slopes(name: str) -> None:
    problem = parabola(maximize="log(y + 0.2)", subject_to={"black": "sqrt(y) >= 0.1"})
    U = Stream(3).sobol(16, 1)
    acquisition = MAKERS[name](composed(problem, believer("none")))
    assert np.isfinite(acquisition.values(U)).all()
    for each in acquisition.values_and_slopes(U):
        assert np.isfinite(each).all()


def test_screened_points_have_no_slopes() -> None:
    points = Points.of(composed(curved(), believer("none")), Stream(3).sobol(4, 2), is_screening=True)
    _, slopes = points.exactly(0)
    with pytest.raises(RuntimeError, match="no slopes"):
        slopes()


def test_values_in_pieces_equal_those_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    U = Stream(3).sobol(40, 2)
    acquisition = MAKERS["logei-cf"](composed(curved(), believer("none")))
    whole = acquisition.values(U)
    monkeypatch.setattr("pied.solvers.acquisition.NUMBERS_AT_ONCE", 7 * 3 * 32)
    np.testing.assert_allclose(acquisition.values(U), whole, rtol=1e-9)
