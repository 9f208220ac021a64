"""The edge of a plateau is followed from the side on which the output varies."""

import numpy as np
import pytest

from pied import CUQB, Problem, Study
from pied.gp import GP, Model
from pied.records import Dataset
from pied.rng import Stream
from pied.solvers import clipped
from pied.solvers.cuqb import CUQBRun

D = 2
LIMITED = np.array([True])


def data_of(U, y):
    return Dataset(tuple(range(1, len(U) + 1)), U, np.asarray(y, dtype=np.float64).reshape(len(U), -1), U[:0])


def excess(U):
    """Beyond 0, a bed is spent."""
    return U[:, 0] + U[:, 1] ** 2 - 0.7


def slip(U):
    return np.maximum(20 * excess(U), 0.0)


def dropping(U):
    """The same with a cliff."""
    return np.where(excess(U) > 0, 15 + 20 * excess(U), 0.0)


def belief_of(data):
    return GP.fit(data.U, data.Y, active=np.ones((1, D), dtype=bool), ratios=np.ones(D), noise=[0.0], model=Model())


U = Stream(1).sobol(40, D)
BEST = U[np.argmin(np.abs(excess(U)))]


def test_points_on_a_plateau_and_far_ones_do_not_count():
    data = data_of(U, slip(U))
    found = clipped.beside_plateaus(data, BEST, LIMITED)
    is_flat, counts = excess(U) <= 0, np.isfinite(found.data.Y[:, 0])
    away = np.linalg.norm(U - BEST, axis=1)
    assert (found.sides[:, 0] == np.where(is_flat, -1.0, 0.0)).all()
    assert counts.sum() == 3 * D + 3
    assert not (counts & is_flat).any()
    assert away[counts].max() < away[~counts & ~is_flat].min()
    assert (found.ball.moments(U)[0][counts] >= 0).sum() >= D + 1


def test_both_ends_may_be_plateaus():
    found = clipped.beside_plateaus(data_of(U, np.clip(slip(U), None, 8.0)), BEST, LIMITED)
    assert set(found.sides.ravel()) == {-1.0, 0.0, 1.0}


@pytest.mark.parametrize(
    "y",
    [np.ones(40), excess(U), np.where(excess(U) > 0.9, slip(U), 0.0)],
    ids=["one value", "no plateau", "few values beside it"],
)
def test_without_enough_beside_a_plateau_there_is_nothing(y):
    assert clipped.beside_plateaus(data_of(U, y), BEST, LIMITED) is None


def test_an_output_that_is_not_limited_is_not_clipped():
    assert clipped.beside_plateaus(data_of(U, slip(U)), BEST, ~LIMITED) is None


def test_the_same_value_along_a_variable_without_influence_is_no_plateau():
    V = U.copy()
    V[:5, 0] = 0.0  # the least value five times, whatever the second variable is
    assert clipped.beside_plateaus(data_of(V, V[:, 0]), V[0], LIMITED) is None


def test_what_varies_leads_up_to_an_edge_but_not_to_a_cliff():
    for output, is_edge in ((slip, True), (dropping, False)):
        data = data_of(U, output(U))
        found = clipped.beside_plateaus(data, BEST, LIMITED)
        assert clipped.leads_up(found, belief_of(found.data), data) is is_edge


def test_the_edge_of_one_output_does_not_excuse_the_cliff_of_another():
    both = data_of(U, np.stack([slip(U), dropping(U)], 1))
    found = clipped.beside_plateaus(both, BEST, np.array([True, True]))
    assert (found.sides != 0).any(0).all()
    active, ratios = np.ones((2, D), dtype=bool), np.ones(D)
    belief = GP.fit(U, found.data.Y, active=active, ratios=ratios, noise=[0.0, 0.0], model=Model())
    assert not clipped.leads_up(found, belief, both)


@pytest.mark.filterwarnings("error")
def test_an_output_that_was_never_told_has_no_plateau():
    told = data_of(U, np.stack([slip(U), np.full(len(U), np.nan)], 1))
    found = clipped.beside_plateaus(told, BEST, np.array([True, True]))
    assert (found.sides != 0).any(0).tolist() == [True, False]


# --- Runs -------------------------------------------------------------------------------------------------------------


def spent(x):
    """A slip that begins when a bed is spent."""
    return {"slip": max(60.0 * (x["hours"] * x["flow"] / x["bed"] - 1.0), 0.0)}


def stated(objective="2*hours*flow/(hours + 1) - 0.5*bed", **words):
    variables = {"hours": (0.5, 3.0), "flow": (0.2, 2.0), "bed": (0.4, 3.0)}
    words = {"subject_to": ["slip <= 1"], "blackbox": spent, "noise": 0, **words}
    return Problem(variables, ["slip"], maximize=objective, **words)


@pytest.fixture
def edges(monkeypatch):
    """The numbers of the trials that were sought beside plateaus."""
    found, beside = [], CUQBRun._beside_plateaus

    def noted(run, scene):
        side = beside(run, scene)
        if side is not None:
            found.append(scene.number)
        return side

    monkeypatch.setattr(CUQBRun, "_beside_plateaus", noted)
    return found


def test_the_belief_beside_plateaus_is_sure_of_nothing_on_them():
    """Values that count as not told are not imagined either: there, such a belief would be sure of its guesses."""
    problem = stated()
    with Study(problem, seed=0) as study:
        for u in Stream(2).sobol(40, 3):
            x = dict(zip(problem.variables, problem.from_unit(u[None])[0].tolist(), strict=True))
            study.add(x, spent(x))
        data = study.data
    run = CUQB().start(problem, Stream(0))
    side = run._beside_plateaus(run._scene(41, data, None, Stream(0)))
    is_flat = data.Y[:, 0] == 0
    assert side.belief.moments(data.U[is_flat])[1].min() > 3 * side.belief.moments(data.U[~is_flat])[1].min()


def test_a_failed_evaluation_does_not_end_it():
    problem, U = stated(), Stream(2).sobol(60, 3)
    fails = U[:, 1] > 0.8
    Y = np.array([[spent(problem.named_x(x))["slip"]] for x in problem.from_unit(U[~fails])])
    data = Dataset(tuple(range(len(Y))), U[~fails], Y, U[fails], failures=tuple(range(int(fails.sum()))))
    run = CUQB().start(problem, Stream(0))
    side = run._beside_plateaus(run._scene(61, data, None, Stream(0)))
    assert side is not None
    grid = Stream(3).sobol(512, 3)
    near = ((grid - side.known[0]) ** 2).sum(1) < side.nearby.border.radius**2
    likely = side.success.is_likely(grid)
    assert likely.any()
    assert not likely[~near | (grid[:, 1] > 0.95)].any()


def shortfall(study):
    """By how much the result is worse than the optimum, which is on the line where the slip is 1."""
    flow, bed = np.meshgrid(np.linspace(0.2, 2.0, 1500), np.linspace(0.4, 3.0, 1500))
    hours = (1.0 + 1.0 / 60.0) * bed / flow
    values = np.where((hours >= 0.5) & (hours <= 3.0), 2 * hours * flow / (hours + 1) - 0.5 * bed, -np.inf)
    return values.max() - study.result().value


@pytest.mark.slow
def test_a_limit_beyond_a_plateau_is_found(edges):
    short = []
    for seed in range(3):
        study = Study(stated(), seed=seed)
        study.run(budget=32)
        short.append(shortfall(study))
    assert edges
    assert np.median(short) < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "solver"),
    [
        (stated(), CUQB(regimes=False)),
        (stated(objective="2*hours*flow/(hours + 1) - 0.5*bed - 0.01*slip"), CUQB()),
        (stated(noise=0.1), CUQB()),
    ],
    ids=["one belief", "the objective has the output", "noise"],
)
def test_elsewhere_plateaus_are_a_part_of_the_belief(edges, problem, solver):
    Study(problem, solver=solver, seed=0).run(budget=20)
    assert edges == []
