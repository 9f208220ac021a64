"""Twins are infeasible, rescaled or shifted as described."""

import numpy as np
import pytest

from pied import solve, suite
from pied.errors import StatementError
from pied.rng import Stream
from pied.suite import Benchmark, twins
from pied.suite.optimum import Effort, best
from tiny import few

QUICK = Effort(pool=4096, starts=32, steps=40, polished=2, searches=1)
"""Constraints are smooth and have few basins; a pool of this size alone comes close."""


def largest(benchmark: Benchmark, only: list[int] | None = None, amounts: dict[str, float] | None = None) -> float:
    """Return the largest smallest constraint over the box, in units of the scales, after tightening some."""
    whole = benchmark.whole
    places = only or list(range(1, whole.k))
    ahead = np.array([(amounts or {}).get(whole.constraints[i - 1], 0.0) for i in places])
    scale = benchmark.scales[places]
    found = best(
        lambda U: (benchmark.truth(U, unit=True)[:, places] - ahead) / scale,
        whole.d,
        stream=Stream(8),
        pieces=len(places),
        effort=QUICK,
    )
    assert found is not None
    return found.value


@pytest.mark.slow
@pytest.mark.parametrize("name", few(twins.INFEASIBLE, 3))
def test_infeasible_twin_asks_one_constraint_for_more_than_the_box_has(name):
    base, twin = suite[name], twins.infeasible(name)
    (constraint,) = twins.INFEASIBLE[name]
    place = base.whole.constraints.index(constraint) + 1
    assert base.whole.structure[place].kind != "white"
    assert largest(base, [place]) > -1e-9
    assert largest(twin, [place]) < -1e-3
    assert twin.known is None
    assert twin.feasible_fraction == 0
    assert not bool(twin.is_strictly_feasible(twin.whole.from_unit(Stream(1).sobol(4096, twin.whole.d))).any())


@pytest.mark.slow
@pytest.mark.parametrize("name", few(twins.JOINTLY, 2))
def test_jointly_infeasible_pair_is_feasible_one_at_a_time(name):
    base, twin, amounts = suite[name], twins.jointly_infeasible(name), twins.JOINTLY[name]
    for constraint, amount in amounts.items():
        assert largest(base, amounts={constraint: amount}) > 1e-4
    assert largest(twin) < -1e-3


def test_twins_that_cannot_be_made_are_refused_in_words():
    with pytest.raises(StatementError, match="no constraint to tighten"):
        twins.infeasible("booth")
    with pytest.raises(StatementError, match="these have one: 'bazaraa'"):
        twins.jointly_infeasible("ex211")
    with pytest.raises(StatementError, match="no known optimum"):
        twins.shifted("illustrative-constraint")
    with pytest.raises(StatementError, match="positive factors"):
        twins.rescaled("g09", x=-1.0)
    with pytest.raises(StatementError, match="positive factors"):
        twins.rescaled("g09", y={"y7": 10.0})
    with pytest.raises(StatementError, match="'jointly'"):
        suite.twin("g09", infeasible="both")


def test_tightened_formulas_stay_readable():
    twin = twins.jointly_infeasible("williams-otto")
    texts = [each["formula"] for each in twin.problem.statement()["subject_to"]]
    assert texts == ["X_A <= 0.12 - 0.045", "X_G <= 0.08 - 0.045"]


def test_tightening_subtracts_from_the_constraint_alone():
    base, twin = suite["spring"], twins.infeasible("spring")
    X = base.whole.from_unit(Stream(2).sobol(16, 3))
    difference = base.truth(X) - twin.truth(X)
    assert np.allclose(difference[:, 1], 90.0)
    assert not bool(difference[:, [0, 2, 3, 4]].any())


@pytest.mark.parametrize("name", ["rosenbrock", "spring", "williams-otto", "illustrative-constraint", "environmental"])
def test_rescaled_twin_is_the_same_problem_in_other_units(name):
    base, twin = suite[name], twins.rescaled(name, x=1e3, y=1e-4, g=1e5)
    U = Stream(3).sobol(64, base.whole.d)
    f, other = base.truth(U, unit=True), twin.truth(U, unit=True)
    assert np.allclose(other, 1e5 * f, rtol=1e-9, atol=1e-6 * np.abs(f).max())
    assert np.allclose(twin.whole.bounds, 1e3 * base.whole.bounds)
    assert np.array_equal(twin.whole.active, base.whole.active)
    assert [each.kind for each in twin.whole.structure] == [each.kind for each in base.whole.structure]
    assert np.allclose(twin.scales[1:], 1e5 * base.scales[1:])
    x = twin.whole.named_x(twin.whole.from_unit(U[5]))
    wanted = 1e-4 * base.outputs(base.whole.from_unit(U[5:6]))[0]
    assert np.allclose(twin.problem.evaluate(x), wanted, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["bazaraa", "booth", "wolfe", "colville"], 2))
def test_other_units_change_no_point_of_a_run(name):
    """Also where a plane of points is equally good (wolfe): what rounding would decide is decided by rule."""
    runs = []
    for benchmark in (suite[name], twins.rescaled(name, x=1e3, y=1e-4, g=1e5)):
        problem = benchmark.problem
        trials = solve(problem, 2 * problem.d + 6, seed=0).trials
        runs.append(problem.to_unit(np.array([list(trial.x.values()) for trial in trials])))
    assert np.abs(runs[0] - runs[1]).max() < 1e-12


def test_single_names_can_be_rescaled():
    twin = twins.rescaled("bazaraa", x={"x1": 10.0}, g={"objective": 100.0})
    assert twin.whole.bounds.tolist() == [[0.1, 10.0], [0.01, 1.0]]
    assert twin.known.value == pytest.approx(-661.3085467348788)


@pytest.mark.parametrize("name", [name for name in suite if suite[name].known is not None])
def test_shifted_box_keeps_the_optimum_and_hides_it_from_the_centre(name):
    base, twin = suite[name], twins.shifted(name)
    (lo, hi), (low, high) = base.whole.bounds.T, twin.whole.bounds.T
    inside = (low >= lo) & (high <= hi)
    widened = np.array([each in twins.WIDENED.get(name, {}) for each in base.whole.variables])
    assert bool((inside | widened).all())
    assert bool((high - low < hi - lo).all()) or bool(widened.any())
    assert twin.known.value == base.known.value
    u = twin.whole.to_unit(twin.whole.point(dict(twin.known.x)))
    assert np.abs(u - 0.5).max() > 0.02
    assert twin.regret(twin.known.x).item() == pytest.approx(0, abs=1e-9)


def test_shifted_twins_move_what_lay_in_the_centre_or_the_corner():
    for name in ("rastrigin", "environmental"):
        for seed in range(5):
            twin = twins.shifted(name, seed=seed)
            u = twin.whole.to_unit(twin.whole.point(dict(twin.known.x)))
            assert np.abs(u - 0.5).min() > 0.05
    wolfe = twins.shifted("wolfe")
    assert float(wolfe.whole.to_unit(wolfe.whole.point(dict(wolfe.known.x)))[:2].min()) > 0.1


def test_twins_can_be_combined():
    made = suite.twin("g09", scale=10.0, shift=2, noise=0.5)
    assert made.name == "g09-shifted-rescaled"
    assert made.problem.noise == (None, None)
    assert made.known.value == pytest.approx(6806.300573744021)
    assert suite.twin("g09", shift=2, infeasible="jointly").known is None


def test_a_draw_has_an_infeasible_twin_too():
    base = suite.random(2, "reactor", d=2, m=2, n=1)
    twin = twins.infeasible(base)
    f = twin.truth(Stream(4).sobol(2**14, 2), unit=True)
    assert float(f[:, 1].max()) < 0
    assert twin.known is None
