"""Joint optimism: one outcome for all functions; against closed forms, a fine grid and finite differences."""

import math

import numpy as np
import pytest

import pied
from oracles import Normals, numeric_slope
from pied.bounds import quantile
from pied.bounds.believer import optimistic
from pied.bounds.composite import Composite
from pied.bounds.joint import Joint, is_shared
from pied.rng import Stream
from pied.search.multistart import Search
from test_composite import EVERY, U, affine, composite, mean, stated, std

Z95 = quantile.normal(0.95)
XI = np.array([[0.3, -0.5, 0.2], [-0.4, 0.1, 0.6]])
FACTOR = np.array([[0.5, 0, 0], [0.4, 0.2, 0], [0.1, 0, 0.3]])
BELIEFS = {
    "plain": Normals(mean, std),
    "lognormal": Normals(mean, std, (1,)),
    "correlated": Normals(mean, lambda u: FACTOR * (1 + u[0] * u[1])),
}


def one_output(maximize, **subject_to) -> Composite:
    """One variable, one output whose mean grows with it and whose deviation does not."""
    problem = pied.Problem({"x": (0.0, 1.0)}, ["y"], maximize=maximize, subject_to=subject_to)
    return composite(problem, Normals(lambda u: 2.0 * u, lambda u: 0.3 + 0.0 * u))


def maximum(C: Composite, joint: Joint):
    search = Search(pool=128)
    d = C.problem.d
    pool = search.screen(Stream(0), d, np.zeros((0, d)))
    return joint.maximum(search, np.ones(C.problem.k), pool, pool[:0], Stream(0))


@pytest.mark.parametrize("belief", BELIEFS)
def test_outcomes_are_g_at_mean_plus_scale_xi(belief):
    problem, law = stated(*EVERY), BELIEFS[belief]
    C = composite(problem, law)
    middle, scale = law.moments(U)
    step = scale * XI if scale.ndim == 2 else np.einsum("bij,bj->bi", scale, XI)
    theirs = [each.reshape(-1) for each in problem.g(problem.from_unit(U), law.unwarp(middle + step)[None])]
    np.testing.assert_allclose(C.outcomes(U, XI), np.stack(theirs, 1))
    np.testing.assert_allclose(C.outcomes_and_slopes(U, XI)[0], np.stack(theirs, 1))


@pytest.mark.parametrize("in_ball", [True, False])
@pytest.mark.parametrize("belief", BELIEFS)
def test_slopes_equal_finite_differences(belief, in_ball):
    joint = Joint(composite(stated(*EVERY), BELIEFS[belief]), Z95, in_ball)
    W = np.concatenate([U, 0.5 + 0.5 * XI], 1)
    values, slopes = joint.values_and_slopes(W)
    np.testing.assert_allclose(values, joint.values(W))
    for w, slope in zip(W, slopes, strict=True):
        np.testing.assert_allclose(
            slope, numeric_slope(lambda v: joint.values(v[None])[0], w, 1e-6), rtol=1e-6, atol=1e-6
        )


def test_outcomes_stay_inside_stated_ranges_and_slopes_know_it():
    problem = stated(affine, ranges={"a": (0.0, 0.5)})
    C = composite(problem, BELIEFS["plain"])
    far = np.full((2, 3), 9.0)
    f, _, by_xi = C.outcomes_and_slopes(U, far)
    assert np.array_equal(by_xi[:, 0, 0], np.zeros(2))
    np.testing.assert_allclose(f, C.outcomes(U, far), rtol=1e-12, atol=1e-12)


def test_for_one_affine_function_the_best_outcome_is_proposition_2():
    C = composite(stated(affine), BELIEFS["plain"])
    joint = Joint(C, Z95)
    lifted = joint.lifted(U, np.ones(1))
    np.testing.assert_allclose(joint.values(lifted)[:, 0], C.values(U, [0.95])[:, 0])
    np.testing.assert_allclose(joint.values(lifted)[:, 1], np.zeros(2), atol=1e-12, rtol=0)


def test_one_outcome_must_serve_objective_and_constraint():
    """y must be high for the objective and low for the constraint: alone, each has what it wants."""
    C = one_output("y", low=lambda x, y: 1.0 - y.y)
    together = maximum(C, Joint(C, Z95))
    assert together.satisfied
    assert float(together.f[0]) == pytest.approx(1.0, abs=1e-6)
    search = Search(pool=128)
    pool = search.screen(Stream(0), 1, np.zeros((0, 1)))
    alone = search.solve(optimistic(C, 0.95), np.ones(2), pool, pool[:0], Stream(0))
    assert float(alone.f[0]) == pytest.approx(1.0 + 2 * Z95 * 0.3, abs=1e-6)


def test_the_maximum_is_that_of_a_fine_grid():
    C = one_output(lambda x, y: -((y.y - 1.3) ** 2) - (x.x - 0.2) ** 2, low=lambda x, y: 1.1 - y.y * x.x)
    found = maximum(C, Joint(C, Z95))
    x, xi = np.meshgrid(*[np.linspace(0, 1, 2001)] * 2, indexing="ij")
    y = 2 * x + Z95 * 0.3 * (2 * xi - 1)
    value = np.where(y * x <= 1.1, -((y - 1.3) ** 2) - (x - 0.2) ** 2, -math.inf)
    assert float(found.f[0]) == pytest.approx(float(value.max()), abs=1e-5)


def test_a_box_reaches_its_corners_and_a_ball_does_not():
    C = composite(stated(lambda x, y: y.a + y.b + y.c), BELIEFS["plain"])
    ones, corner = np.ones(1), np.ones((2, 3))
    box = Joint(C, Z95, in_ball=False)
    np.testing.assert_allclose(box.lifted(U, ones)[:, 2:], corner)
    assert bool((box.values(box.lifted(U, ones))[:, 0] > C.values(U, [0.95])[:, 0]).all())


def test_without_a_plausible_outcome_nothing_is_satisfied():
    C = one_output("y", high=lambda x, y: y.y - 5.0)
    assert not maximum(C, Joint(C, Z95)).satisfied


@pytest.mark.parametrize(
    ("functions", "shared"),
    [
        ([affine], False),
        ([lambda x, y: y.a, lambda x, y: y.b], False),
        ([lambda x, y: y.a, lambda x, y: x.p, lambda x, y: y.c - y.b], False),
        ([lambda x, y: y.a, lambda x, y: y.b - y.a], True),
    ],
)
def test_outputs_are_shared_when_two_functions_depend_on_one(functions, shared):
    assert is_shared(composite(stated(*functions))) is shared


@pytest.mark.parametrize("joint", [True, False])
def test_cuqb_hopes_jointly_or_alone(joint):
    problem = pied.Problem(
        {"x": (0.0, 1.0)},
        ["y"],
        maximize="y",
        subject_to={"low": "y <= 1"},
        blackbox=lambda x: {"y": math.sin(5 * x.x)},
    )
    study = pied.Study(problem, solver=pied.CUQB(joint=joint, verify_every=None, compare=False), seed=0)
    result = study.run(4)
    hoped = result.trials[-1].why.optimistic
    assert hoped is not None
    assert (hoped <= 1 + 1e-6) is joint
