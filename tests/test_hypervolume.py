"""Fronts and their volumes, against brute force."""

import numpy as np
import pytest

from pied.hypervolume import cells, growth, growth_and_slopes, hypervolume, nondominated
from pied.rng import Stream

SAMPLES = 40_000


def front(r: int, count: int = 9) -> np.ndarray:
    return Stream(5).at("front", r).uniform(count, r)


def covered(F: np.ndarray, points: np.ndarray) -> np.ndarray:
    return (points[:, None] <= F).all(2).any(1)


def test_a_point_is_kept_when_no_other_one_is_at_least_as_good_in_all_values() -> None:
    F = np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 1.0], [3.0, 1.0], [2.0, 2.0], [np.nan, 9.0]])
    assert nondominated(F).tolist() == [True, True, False, True, False, False]
    assert nondominated(F[:0]).tolist() == []


@pytest.mark.parametrize("r", [2, 3, 4])
def test_the_hypervolume_is_the_share_of_random_points_that_the_front_dominates(r: int) -> None:
    F = front(r)
    share = covered(F, Stream(1).at("points").uniform(SAMPLES, r)).mean()
    assert hypervolume(F, np.zeros(r)) == pytest.approx(share, abs=0.015)  # five standard errors


def test_the_hypervolume_of_two_known_boxes() -> None:
    assert hypervolume(np.array([[2.0, 1.0], [1.0, 3.0]]), np.zeros(2)) == pytest.approx(4.0)
    assert hypervolume(np.array([[-1.0, 5.0]]), np.zeros(2)) == 0.0


@pytest.mark.parametrize("r", [2, 3, 4])
def test_growth_is_the_difference_of_two_hypervolumes(r: int) -> None:
    F, P, reference = front(r), 1.3 * Stream(2).at("new").uniform(20, r) - 0.1, np.full(r, 0.05)
    expected = [hypervolume(np.concatenate([F, p[None]]), reference) - hypervolume(F, reference) for p in P]
    assert growth(P, cells(F, reference)) == pytest.approx(np.array(expected), abs=1e-12)
    assert growth(P, cells(F[:0], reference)) == pytest.approx(np.maximum(P - reference, 0.0).prod(1))


def test_slopes_of_the_growth_are_its_differences() -> None:
    boxes = cells(front(3), np.zeros(3))
    P = 0.4 + Stream(3).at("new").uniform(10, 3)
    value, slopes = growth_and_slopes(P, boxes)
    assert value == pytest.approx(growth(P, boxes))
    for j in range(3):
        step = np.eye(3)[j] * 1e-7
        difference = (growth(P + step, boxes) - growth(P - step, boxes)) / 2e-7
        assert slopes[:, j] == pytest.approx(difference, abs=1e-5)
