"""A certified subproblem: bounds over boxes that nothing leaves, and the optimum of a grid."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from pied import Choice, Problem, SettingError
from pied.bounds import Believer, optimistic
from pied.bounds.certified import certified
from pied.gp import Enclosure, Model, Prior
from pied.records import Dataset
from pied.rng import Stream
from pied.search import Search

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
KERNELS = ("matern 3/2", "matern 5/2", "squared exponential")
PLAIN = Model(trends=("none", "constant"), warps=("none",), scales=("plain",), waves=False, plateaus=False)


def told(problem: Problem, count: int) -> Dataset:
    """Some values of smooth outputs."""
    U = Stream(3).uniform(count, problem.d)
    columns = [np.sin(5 * U[:, 0] + j) + (U[:, -1] - 0.3 * j) ** 2 for j in range(problem.m)]
    return Dataset(tuple(range(1, count + 1)), U, np.stack(columns, 1), U[:0])


def composed(problem: Problem, believer: Believer, count: int = 9):
    data = told(problem, count)
    return believer.bound(problem, data, believer.fit(problem, data), Stream(0))


@pytest.mark.parametrize("believer", [*(Believer(priors=Prior(2.0, (0.3, 0.7), kernel)) for kernel in KERNELS),
                                      Believer(PLAIN)])  # fmt: skip
def test_no_point_of_a_box_leaves_the_bounds_of_its_box(believer: Believer) -> None:
    problem = Problem({"a": (0.0, 2.0), "b": (0.0, 1.0)}, ["p", "q"], maximize="p - q", noise=1e-3)
    data = told(problem, 9)
    belief = believer.fit(problem, data)
    enclosure = Enclosure.of(belief)
    for width in (0.5, 0.1, 1e-3):
        low = Stream(5).uniform(200, 2) * (1.0 - width)
        over = enclosure.over(low, low + width)
        for inside in (*Stream(6).uniform(8, 2), [0.0, 0.0], [1.0, 1.0]):
            mean, deviation = belief.moments(low + width * np.array(inside))
            assert (over.least - 1e-9 <= mean).all()
            assert (mean <= over.most + 1e-9).all()
            assert (deviation <= over.widest + 1e-9).all()
    tight = over.most - over.least
    assert tight.max() < 0.2  # boxes of a thousandth: bounds come together


CASES = {
    "one output": {"maximize": "p"},
    "two, and a cost": {"maximize": "2*p - q - 0.5*a"},
    "smallest": {"minimize": "p + b*q"},
    "limited": {"maximize": "p + q", "subject_to": ["p <= 0.4", "q >= 0.1*a"]},
    "monotone": {"maximize": "exp(p) - b", "subject_to": {"white": "a + b <= 1.5", "root": "p**3 <= 0.2"}},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_optimum_of_a_fine_grid_is_certified(case: str, kernel: str) -> None:
    problem = Problem({"a": (0.0, 2.0), "b": (0.0, 1.0)}, ["p", "q"], noise=0.01, **CASES[case])
    composite = composed(problem, Believer(priors=Prior(1.0, (0.3, 0.7), kernel)))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 161)] * 2), -1).reshape(-1, 2)
    f = composite.values(grid, (0.95,) * problem.k)
    best = f[(f[:, 1:] >= 0).all(1), 0].max()
    room = 2e-3 * np.ptp(f[:, 0])
    found = certified(composite, 0.95, tolerance=2e-3, most_boxes=60_000)
    assert found.u is not None
    assert found.value >= best - 1.5 * room
    assert best <= found.upper + 1e-9
    assert found.gap <= 1.5 * room, found
    at = composite.values(found.u[None], (0.95,) * problem.k)[0]
    assert at[0] == pytest.approx(found.value)
    assert (at[1:] >= -1e-6).all()


def test_a_search_comes_as_near_as_the_certificate_says_and_begins_it() -> None:
    problem = Problem(dict.fromkeys("abc", (0.0, 1.0)), ["p", "q"], maximize="p - q", noise=0.01)
    composite = composed(problem, Believer(priors=Prior(1.0, 0.5, "squared exponential")), 12)
    functions, search, stream = optimistic(composite, 0.9), Search(), Stream(1)
    pool = search.screen(stream, 3, np.zeros((0, 3)))
    best = search.solve(functions, np.ones(1), pool, np.zeros((0, 3)), stream)
    found = certified(composite, 0.9, start=best.u[None], tolerance=1e-2)
    assert best.f[0] <= found.upper + 1e-9
    assert found.value >= best.f[0] - 1e-9


def test_what_cannot_be_met_is_proved() -> None:
    problem = Problem({"a": (0.0, 1.0), "b": (0.0, 1.0)}, ["p"], maximize="a", subject_to=["p >= 9"], noise=0.01)
    found = certified(composed(problem, Believer(priors=Prior(1.0, 0.5))), 0.95)
    assert found.is_impossible
    assert found.u is None
    assert "no point meets" in str(found)


def test_the_benchmarks_of_certificates_and_of_loose_constants_run() -> None:
    found = importlib.import_module("certified").case(1, "monotone", KERNELS[1], 0)
    assert found["gap"] <= 2e-3
    assert found["missed"]["search"] <= 1e-6
    looseness = importlib.import_module("looseness")
    horizons = looseness.horizons(looseness.CASE.format("linear"), 0.5, 3.0)
    assert horizons == sorted(horizons, reverse=True)  # each constant that is replaced brings the horizon nearer


def test_what_is_not_of_the_kind_is_refused() -> None:
    box, prior = {"a": (0.0, 1.0)}, Believer(priors=Prior(1.0, 0.5))
    for problem, believer, words in (
        (Problem(box, ["p", "q"], maximize="p*q", noise=0.1), prior, "affine, or monotone in one output"),
        (Problem(dict.fromkeys("abcde", (0.0, 1.0)), ["p"], maximize="p", noise=0.1), prior, "at most 4 variables"),
        (Problem(box, ["p"], maximize="p + tan(a)", noise=0.1), prior, "give it as a formula"),
        (Problem(box, ["p"], maximize="p", ranges={"p": (0, 1)}, noise=0.1), prior, "outputs without ranges"),
        (Problem(box, ["p"], maximize="p", noise=0.1), Believer(priors=Prior(1.0, 0.5, mean="a")), "stationary"),
        (Problem(box | {"c": Choice("u", "v")}, ["p"], maximize="p", noise=0.1), prior, "stationary"),
    ):
        with pytest.raises(SettingError, match=words):
            certified(composed(problem, believer), 0.95)
