"""Every number on the page of errata that its own blocks do not compute; those of SNOBFIT are in `test_snobfit`."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from numpy import ndarray
from scipy.optimize import brentq, isotonic_regression

from pied import suite
from pied.bounds import quantile
from pied.rivals.optimism import MeritQuantile
from pied.rng import Stream

PAGE = (Path(__file__).parents[1] / "docs" / "errata.md").read_text()


def said(*words: str) -> None:
    """The page still says what is computed here."""
    text = re.sub(r"\s+", " ", PAGE)
    for each in words:
        assert each in text, each


def vertices(A: ndarray, b: ndarray) -> ndarray:
    """The vertices of {x: A x <= b}, all bases tried."""
    d, found = A.shape[1], []
    for rows in map(list, itertools.combinations(range(len(A)), d)):
        if abs(np.linalg.det(A[rows])) > 1e-9:
            x = np.linalg.solve(A[rows], b[rows])
            if (A @ x <= b + 1e-9).all():
                found.append(x)
    return np.array(found)


def test_levels() -> None:
    said("the quantile 0.525", "takes sample 47 of 50, about 0.93", "every level above 0.98 is the largest sample")
    assert pytest.approx(0.525) == 1 - 0.95 / 2
    assert pytest.approx(0.93) == (47 - 0.5) / 50
    assert quantile.rank(50, MeritQuantile.paper().level) == 47
    assert [quantile.rank(50, p) for p in (0.95, 0.98, 0.980001)] == [48, 49, 50]


def test_the_soft_sort_is_never_more_than_its_steps_away() -> None:
    said("differ by at most 10 units", "never more than 10 units apart", "exceeds the mean by at most 245 units")
    ranks = np.arange(50, 0, -1) / 0.1
    apart = np.sort(Stream(0).normal(50))[::-1] * 1e6
    soft = ranks - isotonic_regression(ranks - apart, increasing=False).x
    assert -np.diff(soft) == pytest.approx(10.0)
    assert soft.max() - apart.mean() == pytest.approx(245.0)
    near = np.arange(50)[::-1] * 9.9
    assert ranks - isotonic_regression(ranks - near, increasing=False).x == pytest.approx(near)


def test_the_sharp_form_of_lemma_4_is_below_the_printed_one_up_to_a_noise() -> None:
    said("below the printed bound where v <= 1 and s^2 <= 1.54")
    most = brentq(lambda square: 2.0 / math.log1p(1.0 / square) - 4.0, 0.1, 10.0)  # C = 4
    assert round(most, 2) == 1.54


def test_what_the_set_consists_of() -> None:
    said("zero to three constraints; the tables have up to five", "In 18 of the 22 problems every function is affine",
         "Ex211, Ex212, Ex216 and st_bpv1 are linear", "Only Rosenbrock, Spring, Ex724 and the environmental problem",
         "(2 of 4 for Rosen-Suzuki")  # fmt: skip
    problems = {name: suite.get(name, "paper").problem for name in suite.sets["paper"] if not name.startswith("illus")}
    assert len(problems) == 22
    curved = {
        name for name, each in problems.items() if any(own.kind not in ("affine", "white") for own in each.structure)
    }
    assert curved == {"rosenbrock", "spring", "ex724", "environmental"}
    assert max(each.n for each in problems.values()) == 5
    assert len(problems["rosen-suzuki"].word("inputs")) == 2
    for name in ("ex211", "ex212", "ex216", "st-bpv1"):
        whole = suite[name]
        ends = whole.whole.from_unit(Stream(1).uniform(2, whole.whole.d))
        middle, limits = whole.truth(ends.mean(0)[None])[0, 1:], whole.truth(ends)[:, 1:]
        assert middle == pytest.approx(limits.mean(0), rel=1e-9, abs=1e-9)


def test_proposition_1_fails_at_a_flat_place() -> None:
    said("with g = 1 where y > 0, else 0, and p = 1/2, the order statistic is 0 or 1 by chance")
    drawn = (Stream(2).normal(10_001, 200) > 0).astype(float)
    found = np.array([quantile.order_statistic(column[:, None], 0.5)[0] for column in drawn.T])
    assert set(found) == {0.0, 1.0}
    assert 0.3 < found.mean() < 0.7


def test_the_printed_problems_in_numbers() -> None:
    said("39 where the literature has 40: another problem with the same optimum", "optimum 27.5, outside of the box")
    said("its optimum would be 230.9, not 213", "where the objective is -7/3", "the feasible set has no volume")
    assert suite["wolfe"].truth(np.ones((1, 3))).item() == pytest.approx(-7 / 3)
    knapsack, box = np.array([20.0, 12, 11, 7, 4]), np.vstack([np.eye(5), -np.eye(5)])
    for right in (39.0, 40.0):
        x = vertices(np.vstack([knapsack, box]), np.array([right, *[1.0] * 5, *[0.0] * 5]))
        values = 42 * x[:, 0] + 44 * x[:, 1] + 45 * x[:, 2] + 47 * x[:, 3] + 47.5 * x[:, 4] - 50 * (x**2).sum(1)
        assert values.min() == pytest.approx(-17.0)  # concave: a vertex is best
        assert x[values.argmin()] == pytest.approx([1, 1, 0, 1, 0])
    A = np.vstack([[6.0, 3, 3, 2, 1, 0], [10.0, 0, 10, 0, 0, 1], np.eye(6), -np.eye(6)])
    for most, wanted in ((30.0, 230.875), (1.0, 213.0)):
        x = vertices(A, np.array([6.5, 20.0, *[most] * 5, 30.0, *[0.0] * 6]))
        gain = 10 * x[:, 5] + x[:, :5] @ [10.5, 7.5, 3.5, 2.5, 1.5] + 0.5 * (x[:, :5] ** 2).sum(1)
        assert gain.max() == pytest.approx(wanted)
    friedman = suite["friedman"].truth(np.array([[1.0, 1.0, 0.0, -1.5, -1.5]]))  # sin(pi x1 x2) is 0 here, -1 there
    assert friedman.item() + 10 == pytest.approx(27.5)
    x3 = np.linspace(0, 10, 101)
    assert x3[np.minimum(15 - x3, 10) >= 10 + 1.6667 * x3].tolist() == [0.0]
