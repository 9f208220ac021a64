"""Sequential quadratic programming in step, against SciPy's SLSQP, closed forms and the conditions of optimality."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import minimize as scipy_minimize

from pied.search import sqp


@dataclass(frozen=True)
class Nlp:
    """Minimize phi subject to c >= 0 in a box, with slopes, one point at a time."""

    phi: Callable[[ndarray], float]
    phi_slope: Callable[[ndarray], ndarray]
    c: Callable[[ndarray], ndarray]
    c_slope: Callable[[ndarray], ndarray]
    low: tuple[float, ...]
    high: tuple[float, ...]
    best: float

    def evaluate(self, Z: ndarray) -> sqp.Evaluated:
        """The batched form that `sqp.minimize` asks for."""
        f = np.array([[self.phi(z), *self.c(z)] for z in Z], dtype=float)
        return f, np.array([[self.phi_slope(z), *self.c_slope(z)] for z in Z], dtype=float)


def nothing(z: ndarray) -> ndarray:
    return np.zeros(0)


def no_slope(z: ndarray) -> ndarray:
    return np.zeros((0, len(z)))


CONVEX = Nlp(
    phi=lambda z: (z[0] - 1) ** 2 + 2 * (z[1] - 2) ** 2 + z[0] * z[1],
    phi_slope=lambda z: np.array([2 * (z[0] - 1) + z[1], 4 * (z[1] - 2) + z[0]]),
    c=nothing,
    c_slope=no_slope,
    low=(-10.0, -10.0),
    high=(10.0, 10.0),
    best=1.0,  # at (0, 2): slopes 2 (0 - 1) + 2 = 0 and 4 (2 - 2) + 0 = 0
)
BOUND_ACTIVE = Nlp(
    phi=lambda z: (z[0] + 1) ** 2 + (z[1] - 3) ** 2,
    phi_slope=lambda z: np.array([2 * (z[0] + 1), 2 * (z[1] - 3)]),
    c=nothing,
    c_slope=no_slope,
    low=(0.0, 0.0),
    high=(1.0, 1.0),
    best=5.0,  # the corner (0, 1)
)
ROSENBROCK_DISC = Nlp(
    phi=lambda z: (1 - z[0]) ** 2 + 100 * (z[1] - z[0] ** 2) ** 2,
    phi_slope=lambda z: np.array([-2 * (1 - z[0]) - 400 * z[0] * (z[1] - z[0] ** 2), 200 * (z[1] - z[0] ** 2)]),
    c=lambda z: np.array([1.5 - z[0] ** 2 - z[1] ** 2]),
    c_slope=lambda z: np.array([[-2 * z[0], -2 * z[1]]]),
    low=(-1.5, -1.5),
    high=(1.5, 1.5),
    best=0.0086156507,  # along the circle, by bounded scalar minimization over its angle
)
HS71 = Nlp(
    phi=lambda z: z[0] * z[3] * (z[0] + z[1] + z[2]) + z[2],
    phi_slope=lambda z: np.array(
        [z[3] * (2 * z[0] + z[1] + z[2]), z[0] * z[3], z[0] * z[3] + 1, z[0] * (z[0] + z[1] + z[2])]
    ),
    c=lambda z: np.array([np.prod(z) - 25, z @ z - 40, 40 - z @ z]),  # the equality as two inequalities
    c_slope=lambda z: np.array([[np.prod(np.delete(z, i)) for i in range(4)], 2 * z, -2 * z]),
    low=(1.0,) * 4,
    high=(5.0,) * 4,
    best=17.0140172891563,  # Hock and Schittkowski, problem 71
)
LINEAR = Nlp(
    phi=lambda z: -z[0] - 2 * z[1],
    phi_slope=lambda z: np.array([-1.0, -2.0]),
    c=lambda z: np.array([4 - z[0] - z[1], 3 - z[1], 6 - 2 * z[0] - z[1]]),
    c_slope=lambda z: np.array([[-1.0, -1.0], [0.0, -1.0], [-2.0, -1.0]]),
    low=(0.0, 0.0),
    high=(9.0, 9.0),
    best=-7.0,  # the vertex (1, 3)
)
REVERSE = Nlp(
    phi=lambda z: z[0],
    phi_slope=lambda z: np.array([1.0, 0.0]),
    c=lambda z: np.array([(z[0] - 0.5) ** 2 + (z[1] - 0.5) ** 2 - 0.36, 0.5 - (z[1] - 0.5) ** 2 - z[0] ** 2]),
    c_slope=lambda z: np.array([[2 * (z[0] - 0.5), 2 * (z[1] - 0.5)], [-2 * z[0], -2 * (z[1] - 0.5)]]),
    low=(0.0, 0.0),
    high=(1.0, 1.0),
    best=0.0,  # outside of a disc: any point of the left edge far enough from its middle
)
PROBLEMS = {
    "convex": CONVEX,
    "bounds active": BOUND_ACTIVE,
    "rosenbrock in a disc": ROSENBROCK_DISC,
    "hs71": HS71,
    "linear": LINEAR,
    "reverse": REVERSE,
}


def starts_of(problem: Nlp, count: int, seed: int = 0) -> ndarray:
    low, high = np.array(problem.low), np.array(problem.high)
    return low + (high - low) * np.random.default_rng(seed).random((count, len(low)))


def solve(problem: Nlp, starts: ndarray, rounds: int = 200) -> sqp.Solution:
    return sqp.minimize(problem.evaluate, starts, np.array(problem.low), np.array(problem.high), rounds, patience=None)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_known_optimum_is_found_from_some_start_and_never_beaten(name: str) -> None:
    problem = PROBLEMS[name]
    found = solve(problem, starts_of(problem, 12))
    fine = (found.f[:, 1:] >= -1e-9).all(1)
    assert fine.any()
    assert found.f[fine, 0].min() == pytest.approx(problem.best, abs=1e-7 * (1 + abs(problem.best)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_converged_start_is_as_good_as_slsqp_from_there(name: str) -> None:
    """A local solver ends in a local optimum: SLSQP started at its end must not get better."""
    problem = PROBLEMS[name]
    found = solve(problem, starts_of(problem, 12, seed=1))
    bounds = list(zip(problem.low, problem.high, strict=True))
    constraints = [{"type": "ineq", "fun": problem.c, "jac": problem.c_slope}] if len(problem.c(found.z[0])) else []
    for z, phi, converged in zip(found.z, found.f[:, 0], found.converged, strict=True):
        if converged:
            other = scipy_minimize(
                problem.phi, z, jac=problem.phi_slope, bounds=bounds, constraints=constraints, method="SLSQP", tol=1e-12
            )
            broken = max(0.0, -problem.c(other.x).min(initial=0.0))
            assert broken > 1e-8 or phi <= other.fun + 1e-6 * (1 + abs(phi))


@pytest.mark.parametrize("name", ["convex", "rosenbrock in a disc", "hs71", "linear"])
def test_most_starts_converge_to_points_that_fulfil_the_conditions_of_optimality(name: str) -> None:
    problem = PROBLEMS[name]
    found = solve(problem, starts_of(problem, 10, seed=2))
    assert found.converged.mean() >= 0.8
    for z, multipliers, converged in zip(found.z, found.multipliers, found.converged, strict=True):
        if not converged:
            continue
        assert (multipliers >= 0).all()
        slope = problem.phi_slope(z) - (multipliers @ problem.c_slope(z) if len(multipliers) else 0.0)
        inside_low, inside_high = z - np.array(problem.low) > 1e-9, np.array(problem.high) - z > 1e-9
        # the gradient of the Lagrangian vanishes, or points out of the box where a bound is active
        assert (slope[inside_high] > -1e-3).all()
        assert (slope[inside_low] < 1e-3).all()
        assert (multipliers * problem.c(z) < 1e-5).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_start_ends_where_it_would_end_alone(name: str) -> None:
    problem = PROBLEMS[name]
    starts = starts_of(problem, 4)
    together = solve(problem, starts)
    for i in range(len(starts)):
        alone = solve(problem, starts[i : i + 1])
        # to what the stopping rule allows: many matrices at once may be multiplied in another order than one
        np.testing.assert_allclose(alone.z[0], together.z[i], atol=1e-4)
        assert alone.f[0, 0] == pytest.approx(together.f[i, 0], rel=1e-8, abs=1e-8)


def test_no_trial_point_leaves_the_box() -> None:
    seen = []

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        seen.append(Z.copy())
        return HS71.evaluate(Z)

    low, high = np.array(HS71.low), np.array(HS71.high)
    sqp.minimize(evaluate, starts_of(HS71, 6) * 3 - 4, low, high, 100)
    points = np.concatenate(seen)
    assert (points >= low).all()
    assert (points <= high).all()


def test_rounds_are_never_exceeded_and_are_reported() -> None:
    calls = []

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        calls.append(len(Z))
        return ROSENBROCK_DISC.evaluate(Z)

    low, high = np.array(ROSENBROCK_DISC.low), np.array(ROSENBROCK_DISC.high)
    found = sqp.minimize(evaluate, starts_of(ROSENBROCK_DISC, 5), low, high, 7)
    assert len(calls) == found.rounds == 7


def test_one_round_returns_the_start_itself() -> None:
    starts = starts_of(CONVEX, 3)
    found = solve(CONVEX, starts, rounds=1)
    np.testing.assert_array_equal(found.z, starts)
    assert not found.converged.any()


def test_a_converged_start_costs_no_further_evaluations() -> None:
    sizes = []

    def evaluate(Z: ndarray) -> sqp.Evaluated:
        sizes.append(len(Z))
        return CONVEX.evaluate(Z)

    optimum = np.array([[0.0, 2.0], [9.0, -9.0]])
    sqp.minimize(evaluate, optimum, np.array(CONVEX.low), np.array(CONVEX.high), 100)
    assert sizes[0] == 2
    assert set(sizes[1:]) == {1}


def test_inconsistent_linearizations_on_the_way_do_not_stop_a_start() -> None:
    """At z_0 = 0.01 the linearized first constraint asks for z_0 >= 50, far outside of the box."""
    problem = Nlp(
        phi=lambda z: z[1],
        phi_slope=lambda z: np.array([0.0, 1.0]),
        c=lambda z: np.array([z[0] ** 2 - 1.0, 1.0 - 0.2 * z[0], z[1] - 0.1 * z[0] ** 2]),
        c_slope=lambda z: np.array([[2 * z[0], 0.0], [-0.2, 0.0], [-0.2 * z[0], 1.0]]),
        low=(-3.0, -3.0),
        high=(3.0, 3.0),
        best=0.1,
    )
    found = solve(problem, np.array([[0.01, -2.0], [-0.01, 2.0], [0.2, 0.0]]))
    assert (found.f[:, 1:] >= -1e-9).all()
    np.testing.assert_allclose(found.f[:, 0], 0.1, atol=1e-7)


def test_an_infeasible_problem_ends_at_a_small_violation_and_says_so() -> None:
    """x >= 0.8 and x <= 0.4 together: the sum of violations is 0.4 anywhere between, more elsewhere."""
    problem = Nlp(
        phi=lambda z: (z[0] - 0.1) ** 2 + z[1] ** 2,
        phi_slope=lambda z: np.array([2 * (z[0] - 0.1), 2 * z[1]]),
        c=lambda z: np.array([z[0] - 0.8, 0.4 - z[0]]),
        c_slope=lambda z: np.array([[1.0, 0.0], [-1.0, 0.0]]),
        low=(0.0, 0.0),
        high=(1.0, 1.0),
        best=np.nan,
    )
    found = solve(problem, np.array([[0.0, 0.5], [1.0, 1.0], [0.5, 0.5]]))
    assert not found.converged.any()
    np.testing.assert_allclose(np.maximum(-found.f[:, 1:], 0).sum(1), 0.4, atol=1e-6)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_regions_without_a_value_are_backed_out_of(wrong: float) -> None:
    """The objective has no value right of 0.7, where the full step of a quadratic model would go."""

    def phi(z: ndarray) -> float:
        return -np.log(0.7 - z[0]) - 4 * z[0] if z[0] < 0.7 else wrong

    problem = Nlp(
        phi=phi,
        phi_slope=lambda z: np.array([1 / (0.7 - z[0]) - 4.0, 0.0]),
        c=nothing,
        c_slope=no_slope,
        low=(0.0, 0.0),
        high=(1.0, 1.0),
        best=-np.log(0.25) - 4 * 0.45,
    )
    found = solve(problem, np.array([[0.0, 0.3], [0.69, 0.3]]))
    np.testing.assert_allclose(found.f[:, 0], problem.best, atol=1e-8)


def test_a_start_without_a_value_stays_where_it_is_and_spoils_no_other() -> None:
    problem = Nlp(
        phi=lambda z: (z[0] - 0.5) ** 2 if z[0] < 0.9 else np.nan,
        phi_slope=lambda z: np.array([2 * (z[0] - 0.5)]),
        c=lambda z: np.array([z[0] - 0.2]),
        c_slope=lambda z: np.array([[1.0]]),
        low=(0.0,),
        high=(1.0,),
        best=0.0,
    )
    found = solve(problem, np.array([[0.95], [0.1]]))
    assert np.isnan(found.f[0, 0])
    assert not found.converged[0]
    assert found.f[1, 0] == pytest.approx(0.0, abs=1e-12)


def random_qp(seed: int, z: int, n: int) -> tuple[ndarray, ndarray, ndarray, ndarray, ndarray, ndarray, ndarray]:
    draw = np.random.default_rng(seed)
    M = draw.standard_normal((z, z))
    B = M @ M.T + 0.1 * np.eye(z)
    root = np.linalg.inv(np.linalg.cholesky(B)).T
    A, inside = draw.standard_normal((n, z)), draw.uniform(-0.5, 0.5, z)
    b = -A @ inside + draw.uniform(0.0, 0.3, n)  # `inside` is feasible
    return B, root, 3 * draw.standard_normal(z), A, b, np.full(z, -1.0), np.full(z, 1.0)


def brute_force_qp(B: ndarray, g: ndarray, A: ndarray, b: ndarray, low: ndarray, high: ndarray) -> ndarray:
    """Try every active set: solve its equalities, keep the best feasible point."""
    z = len(g)
    rows = np.concatenate([A, np.eye(z), -np.eye(z)])
    offsets = np.concatenate([b, -low, high])
    best, where = np.inf, None
    for size in range(z + 1):
        for active in itertools.combinations(range(len(rows)), size):
            N = rows[list(active)]
            K = np.block([[B, -N.T], [N, np.zeros((size, size))]])
            try:
                p = np.linalg.solve(K, np.concatenate([-g, -offsets[list(active)]]))[:z]
            except np.linalg.LinAlgError:
                continue
            value = 0.5 * p @ B @ p + g @ p
            if (rows @ p + offsets >= -1e-9).all() and value < best:
                best, where = value, p
    assert where is not None
    return where


@pytest.mark.parametrize("seed", range(8))
def test_quadratic_programs_equal_brute_force_over_all_active_sets(seed: int) -> None:
    B, root, g, A, b, low, high = random_qp(seed, z=3, n=3)
    answer = sqp.solve_qp(root, g, A, b, low, high)
    assert answer is not None
    np.testing.assert_allclose(answer[0], brute_force_qp(B, g, A, b, low, high), atol=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_quadratic_programs_fulfil_the_conditions_of_optimality(seed: int) -> None:
    B, root, g, A, b, low, high = random_qp(100 + seed, z=8, n=6)
    answer = sqp.solve_qp(root, g, A, b, low, high)
    assert answer is not None
    p, multipliers = answer
    assert (A @ p + b >= -1e-9).all()
    assert (p >= low).all()
    assert (p <= high).all()
    assert (multipliers >= 0).all()
    np.testing.assert_allclose(multipliers * (A @ p + b), 0.0, atol=1e-7)
    slope = B @ p + g - multipliers @ A
    assert (slope[p < high - 1e-9] > -1e-7).all()
    assert (slope[p > low + 1e-9] < 1e-7).all()


def test_a_free_minimum_inside_everything_has_no_multipliers() -> None:
    B, root, g, A, b, low, high = random_qp(0, z=4, n=2)
    answer = sqp.solve_qp(root, g * 1e-3, A, b + 10.0, low, high)
    assert answer is not None
    np.testing.assert_allclose(answer[0], -np.linalg.solve(B, g * 1e-3), atol=1e-12)
    assert (answer[1] == 0).all()


def test_inconsistent_constraints_have_no_solution() -> None:
    A, b = np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([-0.6, 0.4])
    box = (np.full(2, -1.0), np.full(2, 1.0))
    assert sqp.solve_qp(np.eye(2), np.ones(2), A, b, *box) is None
    assert sqp.solve_qp(np.eye(2), np.ones(2), A[:1], np.array([-3.0]), *box) is None  # outside of the box


@pytest.mark.parametrize("seed", range(5))
def test_the_relaxed_program_stays_in_the_box_and_lessens_the_violation(seed: int) -> None:
    """Constraints that exclude each other: p may not lead further out than p = 0, which s = 1 always allows."""
    draw = np.random.default_rng(seed)
    row = draw.standard_normal(3)
    A, b = np.stack([row, -row, draw.standard_normal(3)]), np.array([-0.5, -0.5, -20.0])
    low, high = np.full(3, -1.0), np.full(3, 1.0)
    assert sqp.solve_qp(np.eye(3), np.zeros(3), A, b, low, high) is None
    p, multipliers = sqp.solve_relaxed_qp(np.eye(3), draw.standard_normal(3), A, b, low, high)
    assert (p >= low).all()
    assert (p <= high).all()
    assert np.isfinite(multipliers).all()
    assert (A @ p + b >= np.minimum(b, 0) - 1e-7).all()


def test_the_relaxed_program_equals_the_plain_one_where_that_is_consistent() -> None:
    """The relaxation is dear (1e6), not infinite: agreement to about its inverse."""
    _, root, g, A, b, low, high = random_qp(3, z=4, n=3)
    plain, relaxed = sqp.solve_qp(root, g, A, b, low, high), sqp.solve_relaxed_qp(root, g, A, b, low, high)
    assert plain is not None
    np.testing.assert_allclose(relaxed[0], plain[0], atol=1e-4)


def test_constraints_that_hold_are_never_relaxed() -> None:
    A, b = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), np.array([-0.6, 0.4, 0.25])
    p, _ = sqp.solve_relaxed_qp(np.eye(2), np.array([0.0, 5.0]), A, b, np.full(2, -1.0), np.full(2, 1.0))
    assert p[1] >= -0.25 - 1e-9
    assert p[0] <= 0.4 + 1e-9
