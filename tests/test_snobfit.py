"""SNOBFIT: its parts against brute force, its classes of points, and its authors' test functions."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pied import Problem, SettingError, Study
from pied.rivals.driven import Start
from pied.rivals.snobfit import LEAST_SEPARATION, Snobfit, around_best, by_linear_models, far_away, suggest
from pied.rivals.snobfit_models import (
    EXACT_UNCERTAINTY,
    GOLDEN,
    Boxes,
    Linear,
    Quadratic,
    is_apart,
    is_local,
    neighbours,
)
from pied.rng import Stream
from pied.solvers import make
from tiny import hill, parabola, points, unchecked

RESOLUTION = 1e-5


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def bowl(U: Any) -> Any:
    """A quadratic whose minimum, -1 at (0.3, 0.6, 0.4, ...), is inside of the cube, with coupled coordinates."""
    U = np.atleast_2d(U)
    s = U - np.array([0.3, 0.6, 0.4, 0.5, 0.45])[: U.shape[1]]
    return 3 * (s**2).sum(1) + 1.5 * s[:, 0] * s[:, -1] - 1.0


# ------------------------------------------------------------------------------------------------- branching


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("seed", range(3))
def test_boxes_fill_the_cube_without_overlap_and_hold_one_point_each(d: int, seed: int) -> None:
    U = generator(seed).random((25, d))
    boxes = Boxes.of(U[:9], bowl(U[:9]))
    for start in (9, 15, 20):
        boxes = boxes.with_points(U[start : start + 6], bowl(U[start : start + 6]))
    assert len(boxes.U) == 25
    assert np.prod(boxes.upper - boxes.lower, axis=1).sum() == pytest.approx(1.0, abs=1e-12)
    inside = ((boxes.lower[:, None] <= boxes.U[None]) & (boxes.U[None] <= boxes.upper[:, None])).all(2)
    assert (inside == np.eye(25, dtype=bool)).all()


def test_the_cut_leaves_the_larger_part_of_the_gap_to_the_better_point() -> None:
    U = np.array([[0.2, 0.5], [0.8, 0.5]])
    for F, cut in (([0.0, 1.0], 0.2 + GOLDEN * 0.6), ([1.0, 0.0], 0.2 + (1 - GOLDEN) * 0.6)):
        boxes = Boxes.of(U, np.array(F))
        assert boxes.upper[0].tolist() == pytest.approx([cut, 1.0])
        assert boxes.lower[1].tolist() == pytest.approx([cut, 0.0])


def test_the_cut_runs_across_the_coordinate_of_most_variance_in_its_widest_gap() -> None:
    U = np.array([[0.5, 0.1], [0.52, 0.2], [0.51, 0.9]])
    boxes = Boxes.of(U, np.array([0.0, 0.0, 0.0]))
    assert boxes.lower[2, 1] == pytest.approx(0.2 + GOLDEN * 0.7)
    assert boxes.upper[:2, 1].max() <= boxes.lower[2, 1]


def test_boxes_without_new_points_are_left_alone() -> None:
    U = generator().random((6, 2))
    before = Boxes.of(U, bowl(U))
    new = before.farthest()[2:3]
    after = before.with_points(new, bowl(new))
    kept = [0, 1, 3, 4, 5]
    assert (after.lower[kept] == before.lower[kept]).all()
    assert (after.upper[kept] == before.upper[kept]).all()


def test_a_point_told_again_keeps_the_mean_of_its_values() -> None:
    u = np.array([[0.25, 0.5]])
    boxes = Boxes.of(np.vstack([u, u, u]), np.array([1.0, 2.0, 6.0]))
    assert len(boxes.F) == 1
    assert boxes.F[0] == pytest.approx(3.0)


def test_smallness_counts_halvings() -> None:
    boxes = Boxes(np.full((3, 2), 0.1), np.zeros(3), np.zeros((3, 2)), np.array([[1, 1], [0.5, 1], [0.25, 0.13]]))
    assert boxes.smallness.tolist() == [0.0, 1.0, 5.0]


def test_a_box_is_thin_when_a_side_is_a_twentieth_of_another() -> None:
    U = np.array([[0.02, 0.5], [0.5, 0.5]])
    boxes = Boxes(U, np.zeros(2), np.array([[0.0, 0.0], [0.04, 0.0]]), np.array([[0.04, 1.0], [1.0, 1.0]]))
    assert boxes.is_thin.tolist() == [True, False]
    assert [boxes.home(u) for u in U] == [0, 1]


def test_the_farthest_place_of_a_box_is_half_way_to_its_farthest_corner() -> None:
    boxes = Boxes(np.array([[0.2, 0.9]]), np.zeros(1), np.zeros((1, 2)), np.ones((1, 2)))
    assert boxes.farthest().tolist() == [pytest.approx([0.6, 0.45])]


# ------------------------------------------------------------------------------------------------- neighbours and fits


def test_neighbours_span_every_coordinate_before_they_are_near() -> None:
    x = np.array([0.5, 0.5])
    line = np.array([[0.5 + 0.01 * k, 0.5] for k in range(1, 8)])  # near, but all with the same second coordinate
    U = np.vstack([x, line, [[0.9, 0.9]]])
    chosen = neighbours(U, x, RESOLUTION, 5)
    assert 0 not in chosen
    assert chosen[0] == 1
    assert chosen[1] == 8  # the far point: the only one that differs in the second coordinate
    assert sorted(chosen[2:]) == [2, 3, 4]


def test_neighbours_are_the_nearest_points_when_these_span_every_coordinate() -> None:
    U = generator().random((30, 3))
    near = set(neighbours(U, U[4], RESOLUTION, 8).tolist())
    order = np.argsort(np.linalg.norm(U - U[4], axis=1))
    assert near == set(order[1:9].tolist())


def test_neighbours_are_as_many_as_there_are() -> None:
    U = generator().random((3, 2))
    assert sorted(neighbours(U, U[0], RESOLUTION, 7).tolist()) == [1, 2]


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_linear_model_of_a_linear_function_is_exact(d: int) -> None:
    slope = generator(1).normal(size=d)
    U = generator().random((d + 6, d))
    F = U @ slope + 4.0
    model = Linear.fit(U[0], F[0], U[1:], F[1:], RESOLUTION, EXACT_UNCERTAINTY)
    assert model.slope.tolist() == pytest.approx(slope.tolist(), abs=1e-6)
    z = model.best(U[0])
    assert model.predicted(U[0], F[0], z) == pytest.approx(float(z @ slope + 4.0), abs=1e-6)
    assert z @ slope <= U[0] @ slope


def test_a_linear_model_trusts_near_points_more_and_predicts_with_caution() -> None:
    x = np.array([0.5])
    U = np.array([[0.49], [0.51], [0.1], [0.95], [0.2], [0.8]])
    F = 2 * (U[:, 0] - 0.5) + 20 * (U[:, 0] - 0.5) ** 2
    model = Linear.fit(x, 0.0, U, F, RESOLUTION, EXACT_UNCERTAINTY)
    assert model.slope[0] == pytest.approx(2.0, abs=0.1)
    assert model.error > 0
    z = model.best(x)
    assert model.predicted(x, 0.0, z) > model.slope[0] * float(z[0] - 0.5)


def test_a_direction_that_neighbours_hardly_span_gets_no_wild_slope() -> None:
    U = np.array([[0.5 + 0.1 * k, 0.5 + 1e-9 * (k % 2)] for k in range(-3, 4) if k])
    F = U[:, 0] + generator().normal(size=6) * 1e-3
    model = Linear.fit(np.array([0.5, 0.5]), 0.5, U, F, RESOLUTION, EXACT_UNCERTAINTY)
    assert abs(model.slope[1]) < 1e3


def test_the_trusted_box_is_half_as_wide_as_the_neighbours_reach() -> None:
    x, U = np.array([0.5, 0.5]), np.array([[0.7, 0.5], [0.5, 0.9], [0.4, 0.4]])
    model = Linear.fit(x, 0.0, U, np.array([1.0, 1.0, -1.0]), RESOLUTION, EXACT_UNCERTAINTY)
    assert model.step.tolist() == pytest.approx([0.1, 0.2])
    assert model.best(x).tolist() == pytest.approx([0.4, 0.3])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_a_quadratic_model_of_a_quadratic_is_exact(d: int) -> None:
    count = d * (d + 3) // 2 + 3
    U = generator(d).random((count, d))
    F = bowl(U)
    model = Quadratic.fit(U[0], F[0], U[1:], F[1:])
    expected = 6 * np.eye(d)
    expected[0, -1] += 1.5
    expected[-1, 0] += 1.5
    assert np.allclose(model.curvature, expected, atol=1e-6)
    best = model.best(U[0], np.ones(d), np.zeros((1, d)))
    dense = generator().random((4000, d))
    assert bowl(best)[0] <= bowl(dense).min() + 1e-9


def test_a_quadratic_model_does_not_depend_on_scales() -> None:
    U = generator(3).random((9, 2))
    F = np.sin(3 * U[:, 0]) + np.exp(U[:, 1])
    one = Quadratic.fit(U[0], F[0], U[1:], F[1:])
    shrink = np.array([1e-3, 0.5])
    two = Quadratic.fit(U[0] * shrink, F[0], U[1:] * shrink, F[1:])
    assert np.allclose(two.slope * shrink, one.slope, rtol=1e-6)
    assert np.allclose(two.curvature * np.outer(shrink, shrink), one.curvature, rtol=1e-6)


@pytest.mark.slow
def test_a_linear_model_goes_no_further_than_its_error_allows() -> None:
    """The minimizer of slope s + error s^2 / reach^2, against a fine grid."""
    x, U = np.array([0.5]), np.array([[0.3], [0.4], [0.6], [0.7], [0.45], [0.55]])
    F = 4.0 * (U[:, 0] - 0.5) ** 2 + 0.2 * (U[:, 0] - 0.5)
    model = Linear.fit(x, 0.0, U, F, RESOLUTION, EXACT_UNCERTAINTY)
    grid = np.linspace(0.5 - model.step[0], 0.5 + model.step[0], 20001)[:, None]
    lowest = grid[np.argmin([model.predicted(x, 0.0, z) for z in grid])]
    assert abs(lowest[0] - 0.5) < model.step[0]  # inside of the trusted box
    assert model.best(x)[0] == pytest.approx(lowest[0], abs=1e-4)


def test_an_indefinite_quadratic_is_minimized_at_the_edge_of_its_box() -> None:
    model = Quadratic(np.array([0.1, 0.0]), np.diag([-2.0, 2.0]))
    best = model.best(np.array([0.5, 0.5]), np.array([0.2, 0.2]), np.array([[0.0, 0.0], [-0.1, 0.1]]))
    assert best.tolist() == pytest.approx([0.3, 0.5], abs=1e-6)


def test_a_point_is_local_when_it_stands_out_below_its_neighbours() -> None:
    others = np.array([1.0, 1.5, 2.0])
    assert is_local(0.7, others)
    assert not is_local(0.9, others)
    assert not is_local(1.2, others)


def test_points_are_apart_when_some_coordinate_differs_enough() -> None:
    U = np.array([[0.1, 0.1], [0.2, 0.2]])
    assert not is_apart(np.array([0.1, 0.1 + 4e-6]), U, 5e-6)
    assert is_apart(np.array([0.1, 0.1 + 6e-6]), U, 5e-6)
    assert is_apart(U[0], U[:0], 1.0)


# ------------------------------------------------------------------------------------------------- classes of points


def kinds(U: Any, F: Any, size: int, explore: float = 0.5) -> list[int]:
    return [point.kind for point in suggest(Boxes.of(U, F), size, explore, RESOLUTION, EXACT_UNCERTAINTY, generator(1))]


def test_too_few_points_for_a_model_are_filled_up_far_from_each_other() -> None:
    U = generator().random((5, 2))
    assert kinds(U, bowl(U), 4) == [5, 5, 5, 5]


def test_a_batch_begins_with_the_minimizer_of_the_quadratic_model() -> None:
    U = generator().random((20, 2))
    points_ = suggest(Boxes.of(U, bowl(U)), 8, 0.5, RESOLUTION, EXACT_UNCERTAINTY, generator())
    assert points_[0].kind == 1
    exact = np.linalg.solve(np.array([[6.0, 1.5], [1.5, 6.0]]), np.zeros(2)) + np.array([0.3, 0.6])
    assert points_[0].u.tolist() == pytest.approx(exact.tolist(), abs=2 * RESOLUTION)


@pytest.mark.parametrize(("explore", "far"), [(0.0, 0), (0.5, 4), (1.0, 8)])
def test_the_rest_of_a_batch_is_shared_between_local_fits_and_large_boxes(explore: float, far: int) -> None:
    U = generator().random((40, 2))
    found = kinds(U, np.sin(9 * U[:, 0]) * np.cos(7 * U[:, 1]), 9, explore)
    assert found[0] == 1
    assert sum(kind == 4 for kind in found) == far
    assert all(kind in (2, 3) for kind in found[1:] if kind != 4)
    assert found == sorted(found)


def test_points_of_class_2_come_from_points_that_stand_out() -> None:
    U = np.vstack([generator().random((30, 2)) * 0.9 + 0.05, [[0.5, 0.5]]])
    F = np.append(1.0 + 0.01 * generator().random(30), -5.0)
    F[0] = -9.0  # the best of all is another one
    standing_out, others = by_linear_models(Boxes.of(U, F), RESOLUTION, EXACT_UNCERTAINTY)
    assert len(standing_out) + len(others) == 31
    near = [np.abs(z - [0.5, 0.5]).max() for z in standing_out]
    assert min(near) < 0.3
    assert len(standing_out) == 2


def test_points_of_class_4_lie_in_the_largest_boxes() -> None:
    U = np.vstack([generator().random((20, 2)) * 0.2, [[0.9, 0.9]]])
    boxes = Boxes.of(U, bowl(U))
    points_ = suggest(boxes, 3, 1.0, RESOLUTION, EXACT_UNCERTAINTY, generator())
    largest = int(np.argmin(boxes.smallness))
    assert points_[1].kind == 4
    assert (boxes.lower[largest] <= points_[1].u).all()
    assert (points_[1].u <= boxes.upper[largest]).all()


@pytest.mark.parametrize("seed", range(3))
def test_points_of_one_call_keep_their_distance(seed: int) -> None:
    """The authors': a tenth of the box in some coordinate, so that they are not all the same valley."""
    U = generator(seed).random((40, 2))
    found = suggest(Boxes.of(U, bowl(U)), 8, 0.5, RESOLUTION, EXACT_UNCERTAINTY, generator(seed))
    kept = np.array([point.u for point in found if point.kind < 5])
    assert len(kept) >= 5
    assert all(is_apart(u, np.delete(kept, i, 0), LEAST_SEPARATION - 1e-12) for i, u in enumerate(kept))


def test_a_thin_box_is_divided_instead_of_made_thinner() -> None:
    """All points on a line: what a local fit wants lies in thin boxes, and their middles are proposed instead."""
    U = np.array([[0.5 + 0.004 * k, 0.5] for k in range(-10, 11)])
    boxes = Boxes.of(U, bowl(U))
    found = suggest(boxes, 6, 0.0, RESOLUTION, EXACT_UNCERTAINTY, generator())
    assert not any(boxes.is_thin[boxes.home(point.u)] for point in found if point.kind <= 3)
    assert any(boxes.is_thin[boxes.home(point.u)] for point in found if point.kind == 4)


def test_the_quadratic_model_is_trusted_as_far_as_its_nearest_neighbours_reach() -> None:
    near = 0.5 + 0.05 * (generator().random((9, 2)) - 0.5)
    U = np.vstack([[[0.5, 0.5]], near, generator(1).random((30, 2))])
    F = np.append(-1.0, np.linalg.norm(U[1:] - [0.9, 0.9], axis=1))  # falls towards a far corner
    first = next(around_best(Boxes.of(U, F), RESOLUTION, generator()))
    nearest = U[neighbours(U, U[0], RESOLUTION, 7)]
    assert (np.abs(first - U[0]) <= np.abs(nearest - U[0]).max(0) + 1e-12).all()


def test_points_of_class_5_are_far_from_all_others() -> None:
    U = generator().random((6, 2)) * 0.3
    found = list(far_away(U, 3, generator()))[:3]
    assert min(np.linalg.norm(u - v) for u in found for v in U) > 0.4
    assert min(np.linalg.norm(found[i] - found[j]) for i in range(3) for j in range(i)) > 0.3


@pytest.mark.parametrize("seed", range(3))
def test_suggested_points_are_new_different_on_the_grid_and_in_the_cube(seed: int) -> None:
    U = np.round(generator(seed).random((15, 3)), 2)
    found = np.array([p.u for p in suggest(Boxes.of(U, bowl(U)), 12, 0.5, 1e-2, EXACT_UNCERTAINTY, generator(seed))])
    assert found.shape == (12, 3)
    assert ((found >= 0) & (found <= 1)).all()
    assert np.allclose(found, np.round(found / 1e-2) * 1e-2)
    every = np.vstack([U, found])
    assert all(is_apart(u, np.delete(every, i, 0), 0.5e-2) for i, u in enumerate(every) if i >= 15)


def test_a_full_grid_ends_the_search() -> None:
    calls: list[Any] = []
    settings = Snobfit(resolution=0.09)
    start = Start(np.zeros((1, 1)), np.zeros(1), 1, True, generator())
    why = settings.minimize(start, lambda u: calls.append(u) or float(u[0]))
    assert "every point" in why
    assert 11 <= len(calls) <= 13


# ------------------------------------------------------------------------------------------------- as a solver

HARTMAN = np.array([1.0, 1.2, 3.0, 3.2])
HARTMAN3 = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
CENTRES3 = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
HARTMAN6 = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
CENTRES6 = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(x: Any) -> float:
    inner = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return inner**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


def camel(x: Any) -> float:
    return (4 - 2.1 * x[0] ** 2 + x[0] ** 4 / 3) * x[0] ** 2 + x[0] * x[1] + (4 * x[1] ** 2 - 4) * x[1] ** 2


def goldstein_price(x: Any) -> float:
    a, b = x
    one = 1 + (a + b + 1) ** 2 * (19 - 14 * a + 3 * a**2 - 14 * b + 6 * a * b + 3 * b**2)
    return one * (30 + (2 * a - 3 * b) ** 2 * (18 - 32 * a + 12 * a**2 + 48 * b - 36 * a * b + 27 * b**2))


def shubert(x: Any) -> float:
    j = np.arange(1, 6)
    return float(np.prod([(j * np.cos((j + 1) * each + j)).sum() for each in x]))


def hartman(weights: Any, centres: Any) -> Callable[[Any], float]:
    return lambda x: -float((HARTMAN * np.exp(-(weights * (x - centres) ** 2).sum(1))).sum())


def rosenbrock(x: Any) -> float:
    return float(100 * (x[0] ** 2 - x[1]) ** 2 + (x[0] - 1) ** 2)


SHEKEL = np.array([[4, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7], [2, 9, 2, 9], [5, 5, 3, 3]])
DEPTHS = np.array([0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3])


def shekel7(x: Any) -> float:
    return -float((1 / (((x - SHEKEL) ** 2).sum(1) + DEPTHS)).sum())


# function, box, optimum; evaluations that the authors' own code needs (median of 11 runs of its Python port, SQSnobFit
# 0.4.5 on NumPy 1.23.5, in the experiment of the authors' driver; it raised on Branin: there ours, measured); most
# evaluations of our default, half as many again as measured
PUBLISHED: dict[str, tuple[Callable[[Any], float], Any, Any, float, int, int]] = {
    "branin": (branin, [-5, 0], [10, 15], 0.397887, 57, 38),
    "camel": (camel, [-3, -2], [3, 2], -1.031628, 52, 44),
    "goldstein-price": (goldstein_price, [-2, -2], [2, 2], 3.0, 137, 71),
    "shubert": (shubert, [-10, -10], [10, 10], -186.7309, 153, 270),
    "hartman3": (hartman(HARTMAN3, CENTRES3), [0] * 3, [1] * 3, -3.86278, 58, 54),
    "hartman6": (hartman(HARTMAN6, CENTRES6), [0] * 6, [1] * 6, -3.32237, 193, 160),
    "rosenbrock": (rosenbrock, [-5.12] * 2, [5.12] * 2, 0.0, 473, 330),
    "shekel7": (shekel7, [0] * 4, [10] * 4, -10.4029, 471, 540),
}
QUICK = ("branin", "camel", "hartman3")
LONG = ("hartman6", "rosenbrock", "shekel7")


class Reached(Exception):
    """The optimum, to one per cent."""


def needed(name: str, settings: Snobfit, seed: int, most: int) -> int:
    """Evaluations until the relative error is one per cent, from d + 6 random points: the authors' experiment.

    Where the optimum is zero, until the value is below 1e-5, as there.
    """
    function, lower, upper, optimum, _, _ = PUBLISHED[name]
    low, high = np.array(lower, dtype=float), np.array(upper, dtype=float)
    draws, count = generator(seed), 0

    def evaluate(u: Any) -> float:
        nonlocal count
        count += 1
        value = float(function(low + u * (high - low)))
        if value - optimum <= (1e-2 * abs(optimum) or 1e-5) or count == most:
            raise Reached
        return value

    U = draws.random((len(low) + 6, len(low)))
    with pytest.raises(Reached):
        settings.minimize(Start(U, np.array([evaluate(u) for u in U]), len(low), True, draws), evaluate)
    return count


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PUBLISHED]
)
@pytest.mark.parametrize("form", ["paper", "best"])
def test_the_authors_test_functions_are_solved_with_the_effort_of_their_code(name: str, form: str) -> None:
    """The median is at most twice theirs in their form: two implementations, other random numbers, few runs."""
    theirs, best = PUBLISHED[name][4:]
    most = 2 * theirs if form == "paper" else best
    settings = Snobfit.paper() if form == "paper" else Snobfit()
    runs, counts = 3 if name in LONG else 5, []
    with unchecked():
        while sum(count <= most for count in counts) <= runs // 2 and len(counts) < runs:
            counts.append(needed(name, settings, len(counts), most + 1))
    assert sum(count <= most for count in counts) > runs // 2, counts


def test_a_study_takes_all_initial_points_and_replays() -> None:
    study = Study(hill(), solver="snobfit", seed=0)
    for _ in range(20):
        trial = study.ask()
        study.tell(trial, study.problem.evaluate(trial.x))
    assert points(study.trials[:5]) == points([*_random(hill(), 5).trials])
    proposal = make("snobfit").start(study.problem, Stream(0)).ask(21, study.data)
    asked = np.array(points([study.ask()])[0])
    assert proposal.u.tolist() == pytest.approx(study.problem.to_unit(asked).tolist(), abs=1e-12)


def _random(problem: Problem, evaluations: int) -> Study:
    study = Study(problem, solver="random", seed=0)
    for _ in range(evaluations):
        trial = study.ask()
        study.tell(trial, problem.evaluate(trial.x))
    return study


def test_one_variable_is_enough() -> None:
    study = Study(parabola(), solver="snobfit", seed=0)
    for _ in range(20):
        trial = study.ask()
        study.tell(trial, study.problem.evaluate(trial.x))
    assert float(study.data.functions(study.problem)[:, 0].max()) == pytest.approx(0.8725, abs=1e-8)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"batch": 0}, "batch counts the points"),
        ({"explore": 1.5}, "explore is the fraction"),
        ({"resolution": 0.0}, "resolution is a distance"),
        ({"penalty": 0.0}, "penalty is a positive weight"),
    ],
)
def test_settings_out_of_range_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make("snobfit", **words)
