"""Where evaluations fail is learned and left alone; verdicts and lists of candidates are not misled by it."""

from dataclasses import replace

import numpy as np
import pytest

from pied import suite
from pied.bounds import Believer, TwoRegimes
from pied.bounds.success import SuccessModel, SuccessSearch, WithSuccess, where_success_is_likely
from pied.problem import Problem
from pied.problem.candidates import Listing
from pied.records.trial import Dataset, State
from pied.rng import Stream
from pied.search.enumeration import Enumeration
from pied.search.multistart import Search
from pied.search.optimum import Optimum
from pied.solvers.cuqb import CUQB
from pied.solvers.scene import Scene
from pied.study import Study
from pied.study.recommendation import recommend, surely
from tiny import fast


def record(count: int = 24, d: int = 2) -> Dataset:
    """Evaluations of which those with u1 > 0.5 failed."""
    U = Stream(4).sobol(count, d)
    failed = U[:, 0] > 0.5
    told = U[~failed]
    return Dataset(tuple(range(len(told))), told, told[:, :1], U[failed], failures=tuple(range(int(failed.sum()))))


def learned() -> SuccessModel:
    """The model of success of that record."""
    model = SuccessModel.fit(record().U, record().failed)
    assert model is not None
    return model


class Slope:
    """Maximize u1 + u2, anywhere; a third coordinate, if there is one, is worth nothing."""

    k, white = 1, ()

    def values(self, U):
        return U[:, :2].sum(1, keepdims=True)

    def values_and_slopes(self, U):
        slopes = np.zeros((len(U), 1, U.shape[1]))
        slopes[:, :, :2] = 1.0
        return self.values(U), slopes


def test_nothing_is_learned_while_nothing_has_failed():
    data = record()
    assert SuccessModel.fit(data.U, replace(data, failures=()).failed) is None, "pending trials are not failures"


def test_a_failing_half_is_learned():
    grid = Stream(9).sobol(512, 2)
    likely = learned().is_likely(grid)
    clear = np.abs(grid[:, 0] - 0.5) > 0.12
    right = likely == (grid[:, 0] < 0.5)
    assert right[clear].mean() > 0.95


def two_borders() -> SuccessModel:
    """Evaluations with u1 > 0.5 failed, those with u2 > 0.6 are in another regime."""
    data = record(48)
    model = SuccessModel.of_regime(data.U, data.U[:, 1] > 0.6, data.failed)
    assert model is not None
    return model


@pytest.mark.parametrize("make", [learned, two_borders])
def test_slopes_are_those_of_finite_differences(make):
    model, U, step = make(), 0.1 + 0.8 * Stream(2).sobol(16, 2), 1e-6
    _, slopes = model.values_and_slopes(U)
    for j in range(2):
        move = np.zeros(2)
        move[j] = step
        rise = (model.values(U + move) - model.values(U - move)) / (2 * step)
        np.testing.assert_allclose(slopes[:, :, j], rise, rtol=1e-4, atol=1e-5)


def test_a_regime_and_success_have_a_border_each():
    grid, model = Stream(9).sobol(512, 2), two_borders()
    clear = (np.abs(grid - [0.5, 0.6]) > 0.12).all(1)
    right = model.is_likely(grid) == ((grid[:, 0] < 0.5) & (grid[:, 1] < 0.6))
    assert right[clear].mean() > 0.95
    fewer = model.at(-2.0).is_likely(grid)
    assert 0 < fewer.sum() < model.is_likely(grid).sum()
    assert not fewer[(grid > [0.5, -1.0]).all(1) | (grid > [-1.0, 0.6]).all(1)].any(), "surely on both sides"


def test_without_another_regime_only_success_counts_and_without_failures_only_the_regime():
    data, grid = record(), Stream(9).sobol(64, 2)
    alone = SuccessModel.of_regime(data.U, np.zeros(len(data.U), dtype=bool), data.failed)
    np.testing.assert_array_equal(alone.values(grid), learned().values(grid))
    out = data.U[:, 1] > 0.6
    home = SuccessModel.of_regime(data.U, out, data.failed[:0])
    np.testing.assert_array_equal(home.values(grid), SuccessModel.fit(data.U[~out], data.U[out]).values(grid))


def test_a_point_that_fewer_digits_moved_across_the_edge_was_found_inside_but_a_list_may_have_nothing_inside():
    model, u = learned(), np.array([0.9, 0.5])
    best = Optimum(u, np.zeros(1), satisfied=True, margin=1.0)
    assert model.found(best, Search()).satisfied
    assert not model.found(best, Enumeration(u[None], np.ones(1, dtype=bool))).satisfied


@pytest.mark.parametrize("more", [0, 1])
def test_a_search_stays_where_success_is_likely_also_where_points_have_more_coordinates(more: int):
    model, stream = learned(), Stream(0)
    search = where_success_is_likely(Search(pool=256), model)
    assert isinstance(search, SuccessSearch)
    assert isinstance(search, Search)
    pool, scales = stream.sobol(256, 2 + more), np.ones(1)
    best = search.solve(Slope(), scales, pool, pool[:0], stream)
    assert best.satisfied
    assert best.f.shape == (1,)
    assert best.multipliers == ()
    assert model.values(best.u[None, :2]).item() == pytest.approx(0.0, abs=1e-5), "the best point is on the border"
    free = Search(pool=256).solve(Slope(), scales, pool, pool[:0], stream)
    assert free.u[:2].tolist() == pytest.approx([1.0, 1.0])
    whole = WithSuccess(Slope(), model)
    assert whole.k == 2
    assert whole.values(pool).shape == (256, 2)
    assert whole.coarse() is None


def test_candidates_likely_to_fail_are_not_offered_unless_all_are():
    model = learned()
    U = np.array([[0.1, 0.5], [0.9, 0.5]])
    everything = Enumeration(U, np.ones(2, dtype=bool))
    assert where_success_is_likely(everything, model).offered.tolist() == [True, False]
    only = everything.without(np.array([0]))
    assert where_success_is_likely(only, model) is only


def run(problem: Problem, is_hit, solver: CUQB, count: int, seed: int = 0) -> Study:
    study = Study(problem, solver=solver, seed=seed)
    while study.used < count and study.status.name == "RUNNING":
        trial = study.ask()
        if is_hit(trial.x):
            study.fail(trial, "it did not converge")
        else:
            study.tell(trial, problem.named_y(problem.evaluate(trial.x)))
    return study


@pytest.mark.slow
def test_a_simulator_that_fails_in_half_the_box_is_not_asked_there_for_ever():
    benchmark = suite.get("booth")
    middle = 0.0  # the optimum has x1 = 1
    study = run(benchmark.problem, lambda x: x["x1"] < middle, fast(), 24)
    failed = [trial for trial in study.trials if trial.state is State.FAILED]
    X = np.stack([benchmark.whole.point(dict(t.x)) for t in study.trials if t.state is State.TOLD])
    assert float(benchmark.normalized_regret(X).min()) < 1e-3
    assert len(failed) < 16
    late = [trial.state is State.FAILED for trial in study.trials[-6:]]
    assert sum(late) <= 3


def test_what_is_asked_instead_of_a_repetition_is_likely_to_succeed():
    problem = Problem(variables={"x1": (0, 1), "x2": (0, 1)}, outputs=["y"], maximize="y")
    run_ = CUQB().start(problem, Stream(0))
    data = record(64)
    belief = run_.settings.believer.fit(problem, data, None)
    composite = run_.settings.believer.bound(problem, data, belief, Stream(1))
    pool = Stream(2).sobol(256, 2)
    f = data.functions(problem)
    scene = Scene(
        99, data, belief, belief, composite, f, np.ones(len(f), dtype=bool), data.U[:1], pool,
        np.ones(1), Search(), Stream(3),
    )  # fmt: skip
    model = SuccessModel.fit(data.U, data.failed)
    assert model is not None
    assert 0 < int(model.is_likely(pool).sum()) < 200
    assert bool(model.is_likely(run_.spread_out(scene)[None]).all())
    everywhere = replace(scene, data=replace(data, imagined=data.imagined[:0], failures=()))
    assert not bool(model.is_likely(run_.spread_out(everywhere)[None]).all())  # else the test would show nothing


def test_the_paper_does_not_learn_from_failures(monkeypatch: pytest.MonkeyPatch):
    def fit(*given: object) -> SuccessModel:
        raise AssertionError("the paper does not learn from failures")

    monkeypatch.setattr(SuccessModel, "fit", fit)
    benchmark = suite.get("booth")
    study = run(benchmark.problem, lambda x: x["x1"] < 0.0, CUQB.paper(), 8)
    assert all(trial.why.aim != "fill" for trial in study.trials)


@pytest.mark.slow
def test_a_verdict_ignores_where_evaluations_fail():
    # Feasible only where every evaluation fails: that is no proof that nothing is feasible.
    problem = Problem(
        variables={"a": (0.0, 1.0), "b": (0.0, 1.0)}, outputs=["y"], maximize="b", subject_to=["y >= 0.8"],
        blackbox=lambda x: {"y": x["a"]},
    )  # fmt: skip
    study = run(problem, lambda x: x["a"] > 0.75, fast(), 20)
    assert study.used == 20
    assert study.status.name != "INFEASIBLE"


@pytest.mark.slow
def test_a_verdict_on_a_list_ignores_where_evaluations_fail():
    a = np.linspace(0.0, 1.0, 41)
    rows = [{"a": float(value)} for value in a]
    problem = Problem(
        variables={"a": (0.0, 1.0)}, outputs=["y"], maximize="y", subject_to=["y >= 0.8"], candidates=rows,
        blackbox=lambda x: {"y": x["a"]},
    )  # fmt: skip
    assert isinstance(problem.candidates, Listing)
    study = run(problem, lambda x: x["a"] > 0.75, CUQB(), 20)
    assert study.status.name != "INFEASIBLE"


def hill(noise: float = 0.01, **words: object) -> Problem:
    return Problem(
        {"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["y"], maximize="w*y", constants={"w": 1.0}, noise=noise, **words
    )


def failing_beyond(edge: float, U: np.ndarray, more: np.ndarray) -> Dataset:
    """Noisy values of a + b/10 at points of which those with a > edge failed, and at some more that succeeded."""
    fails = U[:, 0] > edge
    told = np.concatenate([U[~fails], more])
    Y = told @ [[1.0], [0.1]] + 0.01 * Stream(5).normal(len(told), 1)
    return Dataset(tuple(range(1, len(told) + 1)), told, Y, U[fails], failures=tuple(range(int(fails.sum()))))


def test_a_point_that_succeeded_is_recommended_however_near_to_failures():
    data = failing_beyond(0.5, Stream(3).sobol(40, 2), np.array([[0.49, 0.95]]))
    found = recommend(hill(), data)
    assert found.rule == "anywhere"
    assert found.row == len(data.U) - 1
    assert not surely(SuccessModel.fit(data.U, data.failed), 0.95).is_likely(data.U[-1:])[0], (
        "else the test would show nothing"
    )
    unknown = replace(data, Y=np.where(np.arange(len(data.U))[:, None] == found.row, np.nan, data.Y))
    assert recommend(hill(), unknown).row != found.row, "it was not told completely"
    outside = replace(data, U=np.where(np.arange(len(data.U))[:, None] == found.row, [0.49, 1.3], data.U))
    assert (recommend(hill(), outside).u <= 1.0).all()


def test_a_point_of_a_regime_that_succeeded_is_recommended_too():
    data = failing_beyond(0.7, Stream(3).sobol(40, 2), np.array([[0.85, 0.1]]))
    regimes = TwoRegimes.of(
        hill(), Believer(), data, data.U[:, 1] > 0.5, np.array([True]), (None, None), Stream(0), 0.95
    )  # fmt: skip
    found = recommend(hill(), data, regimes=regimes)
    assert found.row == len(data.U) - 1
    assert not surely(regimes.region, 0.95).is_likely(data.U[-1:])[0], "else the test would show nothing"


def test_of_a_list_nothing_is_recommended_that_has_failed_or_may_fail():
    points = Stream(7).sobol(60, 2)
    problem = hill(candidates=[{"a": a, "b": b} for a, b in points.tolist()])
    for count in (8, 16):
        data = failing_beyond(0.25, points[:count], points[:0])
        assert recommend(problem, data).u[0] <= 0.25


@pytest.mark.slow
def test_answers_to_other_prices_are_where_evaluations_succeed():
    study = run(hill(blackbox=lambda x: {"y": x["a"] + 0.1 * x["b"]}), lambda x: x["a"] > 0.6, fast(), 24, seed=1)
    for changes in ({}, {"w": 1.1}):
        assert 0.4 < study.outlook.answer(changes).x["a"] <= 0.6


@pytest.mark.slow
def test_nothing_is_recommended_where_evaluations_fail():
    problem = Problem(
        variables={"a": (0.0, 1.0), "b": (0.0, 1.0)}, outputs=["y"], noise={"y": 0.01}, maximize="y",
        blackbox=lambda x: {"y": x["a"] + 0.1 * x["b"]},
    )  # fmt: skip
    for seed in range(2):
        study = run(problem, lambda x: x["a"] > 0.6, fast(), 24, seed=seed)
        assert 0.4 < study.result().x["a"] <= 0.6
