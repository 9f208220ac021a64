"""The search for the best point of bound functions, on functions whose best point is known."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy import ndarray

from pied import suite
from pied.errors import SettingError
from pied.records.trial import spread
from pied.rng import Stream
from pied.search.functions import Picked
from pied.search.local import APART
from pied.search.multistart import Search, white_feasible
from pied.search.optimum import Optimum
from pied.search.penalty import PenaltySearch

Function = Callable[[ndarray], ndarray]


class Smooth:
    """Functions of a point of the unit cube, with slopes by complex steps; remembers where it was asked for slopes."""

    def __init__(self, *functions: Function, white: Sequence[int] = ()) -> None:
        self.functions, self.white, self.k = functions, tuple(white), len(functions)
        self.asked: list[ndarray] = []

    def values(self, U: ndarray) -> ndarray:
        return np.stack([f(U) for f in self.functions], -1)

    def values_and_slopes(self, U: ndarray) -> tuple[ndarray, ndarray]:
        self.asked.append(U.copy())
        return self.values(U), self.slopes(U)

    def slopes(self, U: ndarray) -> ndarray:
        steps = 1e-30j * np.eye(U.shape[1])
        return np.stack([self.values(U + step).imag for step in steps], -1) / 1e-30


class Truth(Smooth):
    """The true functions of a suite problem, each times a factor: a subproblem whose optimum the suite knows."""

    def __init__(self, name: str, factors: Sequence[float] | None = None) -> None:
        super().__init__()
        self.bench = suite[name]
        self.k, self.d = self.bench.whole.k, self.bench.whole.d
        self.factors = np.array(factors or [1.0] * self.k)
        self.white = tuple(i for i in range(1, self.k) if self.bench.whole.structure[i].kind == "white")

    def values(self, U: ndarray) -> ndarray:
        return self.bench.truth(U, unit=True) * self.factors

    def slopes(self, U: ndarray) -> ndarray:
        """Differences of sixth order: exact for polynomials up to degree six."""
        steps = [(weight, k * 2.0**-9) for k, weight in enumerate((45.0, -9.0, 1.0), 1)]
        columns = [
            sum(weight * (self.values(U + step * e) - self.values(U - step * e)) for weight, step in steps)
            for e in np.eye(self.d)
        ]
        return np.stack(columns, -1) * (2.0**9 / 60)


def scales_of(functions: Smooth, d: int) -> ndarray:
    return spread(functions.values(Stream(1).sobol(1024, d)))


def nothing(d: int) -> ndarray:
    return np.zeros((0, d))


def solve(functions: Smooth, d: int, search: Search | None = None, seed: int = 0, **words: bool) -> Optimum:
    search, stream = search or Search(), Stream(seed)
    pool = search.screen(stream, d, nothing(d))
    return search.solve(functions, scales_of(functions, d), pool, nothing(d), stream, **words)


def first(U: ndarray) -> ndarray:
    return U[:, 0]


def second(U: ndarray) -> ndarray:
    return U[:, 1]


def regret_of(bench: suite.Benchmark, best: Optimum) -> float:
    return (bench.best - float(best.f[0])) / abs(bench.best - bench.median)


@pytest.mark.parametrize("name", ["bazaraa", "rosen-suzuki", "st-bpv1"])
def test_the_optimum_of_the_truth_is_found(name: str) -> None:
    """Also where the feasible set has no volume (st-bpv1)."""
    truth = Truth(name)
    best = solve(truth, truth.d)
    assert best.satisfied
    assert abs(regret_of(truth.bench, best)) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["g09", "williams-otto"])
def test_the_optimum_of_a_larger_truth_is_found(name: str) -> None:
    truth = Truth(name)
    best = solve(truth, truth.d)
    assert best.satisfied
    assert abs(regret_of(truth.bench, best)) < 1e-6
    asked = np.concatenate(truth.asked)
    assert asked.min() >= 0
    assert asked.max() <= 1


@pytest.mark.slow
def test_a_feasible_set_of_one_part_in_a_hundred_thousand_is_found() -> None:
    """Ex724 has several local optima: the best of three searches."""
    truth = Truth("ex724")
    best = max((solve(truth, truth.d, seed=seed) for seed in range(3)), key=lambda each: float(each.f[0]))
    assert best.satisfied
    assert regret_of(truth.bench, best) < 1e-6


def test_rescaling_a_function_changes_no_bit_of_the_point() -> None:
    """By powers of two, which floating point carries exactly."""
    plain, other = Truth("rosen-suzuki"), Truth("rosen-suzuki", [2.0**13, 2.0**-9, 2.0**20, 2.0**4])
    one, two = solve(plain, 4), solve(other, 4)
    assert np.array_equal(one.u, two.u)
    assert one.margin == two.margin
    assert np.array_equal(one.f * other.factors, two.f)


@pytest.mark.slow
def test_rescaling_by_any_factor_changes_the_point_by_rounding_only() -> None:
    """To 1e-6: the stopping rule of the local solves sees other last digits."""
    one, two = solve(Truth("rosen-suzuki"), 4), solve(Truth("rosen-suzuki", [1e6, 3e-7, 7e3, 0.1]), 4)
    np.testing.assert_allclose(one.u, two.u, atol=1e-6, rtol=0.0)


@pytest.mark.parametrize("name", ["rosen-suzuki", "ex212", "st-bpv1"])
def test_white_constraints_hold_to_1e_8_of_their_scale(name: str) -> None:
    truth = Truth(name)
    best = solve(truth, truth.d)
    white = list(truth.white)
    assert (best.f[white] >= -1e-8 * scales_of(truth, truth.d)[white]).all()


def thin(offset: float, width: float) -> Function:
    """A band around the diagonal so thin that a pool of 10,000 points hardly ever meets it."""
    return lambda U: width**2 - (U[:, 0] - U[:, 1] - offset) ** 2


@pytest.mark.parametrize("rescue", [True, False])
def test_a_white_set_that_only_local_solves_find_is_held(rescue: bool) -> None:
    functions = Smooth(first, thin(0.3, 1e-7), lambda U: 0.9 - U[:, 0] - U[:, 1] ** 2, white=[1])
    best = solve(functions, 2, rescue=rescue)
    assert best.satisfied
    assert best.f[1] >= -1e-8 * float(scales_of(functions, 2)[1])
    # x - y = 0.3 and x + y^2 = 0.9: y^2 + y = 0.6
    y = (-1 + (1 + 4 * 0.6) ** 0.5) / 2
    np.testing.assert_allclose(best.u, np.array([0.3 + y, y]), atol=1e-5, rtol=0.0)


def test_white_constraints_hold_also_where_the_others_cannot() -> None:
    """Rescue: the black constraint u_0 >= 2 is hopeless, the thin white one is not."""
    functions = Smooth(second, thin(0.3, 1e-7), lambda U: U[:, 0] - 2.0, white=[1])
    best = solve(functions, 2)
    assert not best.satisfied
    assert best.f[1] >= -1e-8 * float(scales_of(functions, 2)[1])
    assert best.u[0] == pytest.approx(1.0, abs=1e-6)
    assert best.u[1] == pytest.approx(0.7, abs=1e-4)  # 1e-8 of a square is 1e-4 of its root


def test_rescue_maximizes_the_smallest_scaled_constraint() -> None:
    """u <= 0.2 and u >= 0.8 on one axis; the second counts three times, so the best compromise is not in the middle.

    (0.2 - u) / 1 = 3 (u - 0.8) / 1 at u = 0.65, where both are -0.45.
    """
    functions = Smooth(second, lambda U: 0.2 - U[:, 0], lambda U: 3.0 * (U[:, 0] - 0.8))
    search, stream = Search(), Stream(0)
    pool = search.screen(stream, 2, nothing(2))
    best = search.solve(functions, np.ones(3), pool, nothing(2), stream)
    assert not best.satisfied
    assert best.u[0] == pytest.approx(0.65, abs=1e-7)
    assert best.margin == pytest.approx(-0.45, abs=1e-7)


def test_rescue_goes_on_with_the_objective_when_the_margin_reaches_zero() -> None:
    """From starts that violate everything, straight into rescue: it ends at the constrained optimum."""
    functions = Smooth(
        lambda U: -((U[:, 0] - 0.5) ** 2) - (U[:, 1] - 0.1) ** 2, lambda U: U[:, 0] - 0.6, lambda U: U[:, 1] - 0.3
    )
    starts = np.array([[0.1, 0.1], [0.2, 0.0]])
    best = Search().rescue(functions, np.ones(3), starts)
    assert best.satisfied
    np.testing.assert_allclose(best.u, np.array([0.6, 0.3]), atol=1e-6, rtol=0.0)


def test_without_rescue_an_empty_set_is_reported_with_the_least_violation_of_the_local_solves() -> None:
    functions = Smooth(second, lambda U: U[:, 0] - 2.0)
    best = solve(functions, 2, rescue=False)
    assert not best.satisfied
    assert best.margin < 0
    assert best.multipliers == (0.0,)


def test_without_constraints_the_margin_is_infinite() -> None:
    best = solve(Smooth(lambda U: -((U - 0.25) ** 2).sum(1)), 3)
    assert best.satisfied
    assert best.margin == float("inf")
    np.testing.assert_allclose(best.u, np.full(3, 0.25), atol=1e-5, rtol=0.0)


def test_active_constraints_and_multipliers_are_in_natural_units() -> None:
    """Maximize 10 u_0 subject to 2 (0.6 - u_0) >= 0 and u_1 >= -1: one unit of relaxation of the first brings 5."""
    functions = Smooth(
        lambda U: 10 * U[:, 0] - (U[:, 1] - 0.5) ** 2, lambda U: 2 * (0.6 - U[:, 0]), lambda U: U[:, 1] + 1
    )
    best = solve(functions, 2)
    assert best.active == (1,)
    assert best.multipliers[0] == pytest.approx(5.0, rel=1e-4)
    assert best.multipliers[1] == pytest.approx(0.0, abs=1e-6)


def test_local_solves_start_apart_and_include_what_is_known() -> None:
    functions = Smooth(lambda U: -((U - 0.4) ** 2).sum(1))
    known = np.array([[0.9, 0.9], [0.1, 0.8]])
    search, stream = Search(starts=6), Stream(0)
    search.solve(functions, np.ones(1), search.screen(stream, 2, known), known, stream)
    starts = functions.asked[0]
    own = starts[:6]
    distance = np.abs(own[:, None] - own).max(-1) + np.eye(6)
    assert distance.min() > APART
    for point in known:
        assert (starts == point).all(1).any()


@pytest.mark.slow
def test_known_points_in_a_worse_basin_do_not_keep_the_search_there() -> None:
    """The second best optimum of Ex724, and points around it, against 2 parts in 100,000 of the box elsewhere."""
    truth = Truth("ex724")
    scales = scales_of(truth, truth.d)
    near = np.array([[0.0, 0.8, 0.07, 0.04, 0.68, 0.53, 0.24, 0.05]])
    alone = Search(pool=1, generations=0, starts=1, afar=0, relays=0)
    local = alone.solve(truth, scales, near, near, Stream(0))
    assert float(local.f[0]) == pytest.approx(-4.20285, abs=1e-4)
    known = local.u[None]
    regrets = {}
    for afar in (0, 3):
        search, stream = Search(afar=afar), Stream(1)
        best = search.solve(truth, scales, search.screen(stream, truth.d, known), known, stream)
        regrets[afar] = regret_of(truth.bench, best)
    assert regrets[3] < 1e-6
    assert regrets[0] > 1e-2  # else the test would show nothing


def test_the_least_violated_pool_point_is_among_the_starts() -> None:
    functions = Smooth(first, lambda U: U[:, 1] - 0.97)
    search, stream = Search(starts=2, generations=0), Stream(0)
    pool = search.screen(stream, 2, nothing(2))
    search.solve(functions, np.ones(2), pool, nothing(2), stream)
    least = pool[np.maximum(0.97 - pool[:, 1], 0).argmin()]
    assert (functions.asked[0] == least).all(1).any()


def test_one_variable_is_enough() -> None:
    best = solve(Smooth(lambda U: np.sin(9 * U[:, 0]), lambda U: 0.5 - U[:, 0]), 1)
    assert best.u[0] == pytest.approx(np.pi / 18, abs=1e-6)


def test_regions_without_a_value_are_avoided() -> None:
    functions = Smooth(lambda U: np.where(U[:, 0] < 0.7, U[:, 0], np.nan), lambda U: 0.6 - U[:, 0])
    best = solve(functions, 2)
    assert best.satisfied
    assert best.u[0] == pytest.approx(0.6, abs=1e-6)


def test_the_same_stream_gives_the_same_point() -> None:
    one, two = (solve(Truth("bazaraa"), 2, seed=3) for _ in range(2))
    assert np.array_equal(one.u, two.u)


def test_clouds_surround_what_is_known_and_stay_in_the_cube() -> None:
    known = np.array([[1.0, 0.5]])
    pool = Search(pool=64).screen(Stream(0), 2, known)
    extra = pool[64:]
    assert (extra[0] == known[0]).all()
    assert len(extra) > 16
    assert pool.min() >= 0
    assert pool.max() <= 1
    assert (np.abs(extra - known).max(1) < 0.01).sum() >= 16


@pytest.mark.parametrize("words", [{"pool": 0}, {"starts": 0}, {"rounds": 0}, {"generations": -1}])
def test_a_search_without_points_is_refused(words: dict[str, int]) -> None:
    with pytest.raises(SettingError, match="at least one pool point, start and round"):
        Search(**words)


class Sketched(Smooth):
    """Functions with a cheaper version, which is as good."""

    def coarse(self) -> Smooth:
        return Smooth(*self.functions)


def test_ends_that_differ_by_little_are_refined_best_first() -> None:
    """Rounding may not decide where a search starts, but the best end is the best, however little it is ahead."""
    ripples = Sketched(lambda U: np.cos(10 * np.pi * U[:, 0]) + 1e-10 * U[:, 0])
    assert solve(ripples, 1).u == pytest.approx(1.0, abs=1e-3)


def test_the_largest_margin_is_found_by_the_precise_functions_though_cheaper_ones_point_beside_it() -> None:
    """The cheaper version has its better peak elsewhere; both peaks are compared precisely."""

    class Misled(Smooth):
        def coarse(self) -> Smooth:
            return Smooth(first, lambda U: peaks(U) + 0.3 * U[:, 0])

    def peaks(U: ndarray) -> ndarray:
        return np.exp(-100 * (U[:, 0] - 0.2) ** 2) + 0.9 * np.exp(-100 * (U[:, 0] - 0.8) ** 2) - 2.0

    starts = np.linspace(0, 1, 12)[:, None]
    found = Search().rescue(Misled(first, peaks), np.ones(2), starts)
    assert not found.satisfied
    assert found.margin == pytest.approx(-1.0, abs=1e-6)


def test_fewer_than_no_starts_from_afar_are_refused() -> None:
    with pytest.raises(SettingError, match="afar is a number of starts, 0 or more, got -1"):
        Search(afar=-1)


def test_white_feasibility_is_found_by_pool_by_local_solves_or_not_at_all() -> None:
    ones = np.ones(2)
    easy = white_feasible(Smooth(first, lambda U: U[:, 0] - 0.9, white=[1]), ones, Stream(0), 2)
    assert easy is not None
    assert easy[0] >= 0.9
    hard = white_feasible(Smooth(first, thin(0.1, 1e-8), white=[1]), ones, Stream(0), 2)
    assert hard is not None
    assert abs(float(hard[0] - hard[1]) - 0.1) < 1e-4
    assert white_feasible(Smooth(first, lambda U: U[:, 0] - 1.1, white=[1]), ones, Stream(0), 2) is None


def test_white_feasibility_survives_regions_without_a_value() -> None:
    """The square root has no value in most of the box; the band where it is small enough is thin."""
    functions = Smooth(first, lambda U: 1e-3 - np.sqrt(U[:, 0] - 0.999), white=[1])
    found = white_feasible(functions, np.ones(2), Stream(0), 2)
    assert found is not None
    assert 0.999 <= float(found[0]) <= 0.999 + 1.01e-6


def test_picked_functions_change_places_and_keep_their_whiteness() -> None:
    picked = Picked(Smooth(first, second, lambda U: U[:, 0] + U[:, 1], white=[1, 2]), (2, 0, 1))
    U = np.array([[0.25, 0.5]])
    assert picked.k == 3
    assert picked.white == (2,)
    assert picked.values(U).tolist() == [[0.75, 0.25, 0.5]]
    f, J = picked.values_and_slopes(U)
    assert f.tolist() == [[0.75, 0.25, 0.5]]
    assert J[0].tolist() == [[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]


def penalty_solve(functions: Smooth, d: int, search: PenaltySearch, seed: int = 0) -> Optimum:
    stream = Stream(seed)
    scales = scales_of(functions, d)
    return search.solve(functions, scales, search.screen(stream, d, nothing(d)), nothing(d), stream)


def test_the_papers_search_finds_the_maximum_of_a_smooth_function() -> None:
    center = np.array([0.3, 0.8, 0.5])
    best = penalty_solve(Smooth(lambda U: -((U - center) ** 2).sum(1)), 3, PenaltySearch())
    np.testing.assert_allclose(best.u, center, atol=1e-4, rtol=0.0)  # L-BFGS-B at its default tolerance


def test_the_papers_search_comes_near_a_constrained_optimum() -> None:
    """A kink of weight 1e5 stops L-BFGS-B early: near, not on, the optimum."""
    functions = Smooth(lambda U: U[:, 0] + U[:, 1], lambda U: 0.5 - U[:, 0], lambda U: 0.25 - U[:, 1])
    best = penalty_solve(functions, 2, PenaltySearch())
    assert float(best.f[0]) > 0.6
    assert best.margin > -1e-3


def test_a_greedy_temperature_starts_at_the_best_pool_points() -> None:
    functions = Smooth(lambda U: -((U - 0.3) ** 2).sum(1))
    search = PenaltySearch(pool=256, temperature=1e3)
    penalty_solve(functions, 2, search)
    pool = search.screen(Stream(0), 2, nothing(2))
    order = functions.values(pool)[:, 0].argsort()
    assert (functions.asked[0][0] == pool[order[-1]]).all()


def test_a_single_point_far_above_all_others_is_a_start() -> None:
    functions = Smooth(lambda U: np.exp(-((U - 0.3) ** 2).sum(1) * 1e5))
    search = PenaltySearch(pool=256, temperature=1e4)
    pool = search.screen(Stream(0), 2, nothing(2))
    penalty_solve(functions, 2, search)
    assert pool[functions.values(pool)[:, 0].argmax()].tolist() in functions.asked[0].tolist()


def test_the_best_of_the_pool_is_always_a_start_where_that_is_asked_for() -> None:
    functions = Smooth(lambda U: -((U - 0.3) ** 2).sum(1))
    for seed in range(3):
        search = PenaltySearch(pool=256, temperature=0.0, keep_best=True)
        functions.asked.clear()
        penalty_solve(functions, 2, search, seed)
        pool = search.screen(Stream(seed), 2, nothing(2))
        assert pool[functions.values(pool)[:, 0].argmax()].tolist() in functions.asked[0].tolist()


def test_the_papers_search_ignores_what_is_known() -> None:
    known = np.array([[0.5, 0.5]])
    search = PenaltySearch(pool=128)
    assert np.array_equal(search.screen(Stream(0), 2, known), search.screen(Stream(0), 2, nothing(2)))
