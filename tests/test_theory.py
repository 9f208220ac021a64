"""The paper's bounds against brute force, closed forms and numerical integration."""

import itertools
import math

import numpy as np
import pytest
from numpy import ndarray
from scipy.stats import norm

from pied import Problem, SettingError, theory
from pied.bounds.quantile import confidence
from pied.rng import Stream

SET = {"delta": 0.1, "size": 40, "functions": 3}
OUTPUTS = 2


def kernel(points: int = 12, scale: float = 0.3, variance: float = 1.0) -> ndarray:
    x = np.linspace(0, 1, points)
    return variance * np.exp(-0.5 * ((x[:, None] - x) / scale) ** 2)


def largest_by_hand(K: ndarray, noise: float, T: int) -> float:
    """The largest information gain of T measurements, all multisets tried."""
    sets = itertools.combinations_with_replacement(range(len(K)), T)
    return max(theory.information_gain(K[list(rows)][:, list(rows)], noise) for rows in sets)


def deviations(K: ndarray, noise: float, rows: list[int]) -> list[float]:
    """Posterior standard deviations before each measurement, one regression at a time."""
    found = []
    for t, row in enumerate(rows):
        seen = rows[:t]
        A = K[seen][:, seen] + noise**2 * np.eye(t)
        k = K[seen, row]
        found.append(math.sqrt(float(K[row, row] - k @ np.linalg.solve(A, k)) if t else float(K[row, row])))
    return found


# ------------------------------------------------------------------------------------------------- levels and widths


def test_the_tails_of_all_times_points_and_functions_sum_to_delta() -> None:
    total = sum(theory.tail(t, **SET) for t in range(20_000)) * SET["size"] * SET["functions"]
    assert total == pytest.approx(SET["delta"], rel=1e-4)  # the rest of the series is 6 / (pi^2 20000)


@pytest.mark.parametrize("t", [0, 1, 17])
def test_levels_and_beta_say_the_same_as_the_tails(t: int) -> None:
    tail = theory.tail(t, **SET)
    assert confidence(**SET)(t) == pytest.approx(1 - tail / 2, abs=1e-14)
    printed = 2 * math.log(OUTPUTS * math.pi**2 * (t + 1) ** 2 * 3 * 40 / (3 * 0.1))
    assert theory.beta(t + 1, outputs=OUTPUTS, **SET) == pytest.approx(printed, rel=1e-12)
    assert printed == pytest.approx(2 * math.log(2 * OUTPUTS / tail), rel=1e-12)


def test_a_constant_level_spends_the_same_delta_on_a_known_budget() -> None:
    level = theory.constant_level(30, **SET)
    assert 2 * (1 - level) * 30 * SET["size"] * SET["functions"] == pytest.approx(SET["delta"])
    assert level < confidence(**SET)(29)  # late tails of the schedule are smaller still
    with pytest.raises(SettingError, match="T >= 1"):
        theory.constant_level(0, **SET)


def test_tails_out_of_range_are_refused() -> None:
    with pytest.raises(SettingError, match="0 < delta < 1"):
        theory.tail(0, delta=1.5, size=3, functions=1)


@pytest.mark.parametrize("alpha", [0.3, 1e-2, 1e-8])
def test_the_width_bound_holds_for_functions_whose_quantiles_are_known(alpha: float) -> None:
    deviation = np.array([0.5, 1.5])
    beta, z = 2 * math.log(2 * 2 / alpha), norm.isf(alpha / 2)
    bound = float(theory.width_bound(3.0, beta, deviation))
    affine = 2 * z * math.hypot(3.0 * 0.5, 3.0 * 1.5)
    monotone = 3.0 * (math.tanh(1 + z * 1.5) - math.tanh(1 - z * 1.5))
    assert affine <= bound
    assert monotone <= bound
    assert bound == pytest.approx(2 * 3.0 * math.sqrt(beta) * 2.0)


# -------------------------------------------------------------------------------------------------- information gain


def test_the_gain_of_a_set_is_the_entropy_difference_by_the_chain_rule() -> None:
    K, rows = kernel(), [0, 5, 5, 11]
    chain = sum(0.5 * math.log1p((std / 0.2) ** 2) for std in deviations(K, 0.2, rows))
    assert theory.information_gain(K[rows][:, rows], 0.2) == pytest.approx(chain, rel=1e-10)


@pytest.mark.parametrize("noise", [0.05, 0.7])
@pytest.mark.parametrize("T", [1, 2, 4])
def test_the_largest_gain_lies_between_its_bounds(noise: float, T: int) -> None:
    K = kernel(7)
    exact = largest_by_hand(K, noise, T)
    lower, upper = theory.largest_gain(K, noise, T)
    assert lower <= exact * (1 + 1e-12)
    assert exact <= upper * (1 + 1e-12)
    assert exact <= theory.spectral_gain(K, noise, T) * (1 + 1e-12)
    assert exact <= lower / (1 - 1 / math.e)


def test_greedy_picks_are_distinct_until_repetition_pays() -> None:
    gains, chosen = theory.greedy_gain(kernel(5, scale=1e-3), 0.5, 8)
    assert sorted(chosen[:5].tolist()) == [0, 1, 2, 3, 4]
    assert gains[4].item() == pytest.approx(5 * 0.5 * math.log1p(4.0))
    assert (np.diff(gains) > 0).all()


def test_water_is_filled_to_the_optimum() -> None:
    eigenvalues = np.array([5.0, 2.0, 0.5, 1e-3])
    K = np.diag(eigenvalues)
    found = theory.spectral_gain(K, 0.3, 6.0)
    draws = np.random.default_rng(0).dirichlet(np.full(4, 0.7), 200_000) * 6.0
    tried = 0.5 * np.log1p(draws * eigenvalues / 0.09).sum(1).max()
    assert tried <= found <= tried * 1.001


@pytest.mark.parametrize("call", [lambda K: theory.information_gain(K, 0.0), lambda K: theory.greedy_gain(K, 0.0, 2)])
def test_without_noise_there_is_no_finite_gain(call: object) -> None:
    with pytest.raises(SettingError, match="needs noise"):
        call(kernel())  # type: ignore[operator]


def test_rates_have_the_exponents_of_the_paper() -> None:
    far, farther = 1e30, 1e60

    def slope(kernel: str, d: int) -> float:
        rates = (theory.convergence_rate(kernel, far, d), theory.convergence_rate(kernel, farther, d))
        return (math.log(rates[1]) - math.log(rates[0]) - 0.5 * math.log(2.0) * (kernel != "se")) / math.log(
            farther / far
        )

    assert theory.gain_rate("linear", math.e, 4) == pytest.approx(4.0)
    assert theory.gain_rate("squared exponential", math.e**2, 3) == pytest.approx(2.0**4)
    for name, nu in (("matern 3/2", 1.5), ("matern 5/2", 2.5)):
        assert slope(name, 2) == pytest.approx(-nu / (2 * nu + 6), rel=1e-9)
    assert slope("linear", 2) == pytest.approx(-0.5, rel=1e-9)


@pytest.mark.parametrize("name", ["squared exponential", "matern 5/2"])
def test_gains_on_a_line_grow_no_faster_than_their_rate(name: str) -> None:
    x = np.linspace(0, 1, 150)
    r = np.abs(x[:, None] - x) / 0.1
    K = np.exp(-0.5 * r**2)
    if name == "matern 5/2":
        K = (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)
    gains, _ = theory.greedy_gain(K, 0.5, 120)
    ratio = [float(gains[T - 1]) / theory.gain_rate(name, T, 1) for T in (15, 30, 60, 120)]
    assert ratio == sorted(ratio, reverse=True)


def test_rates_of_other_kernels_are_refused() -> None:
    with pytest.raises(SettingError, match="rates are known for"):
        theory.gain_rate("matern 1/2", 10, 1)


# ----------------------------------------------------------------------------------------------- bounds on cumulations


def test_the_sum_of_deviations_stays_below_both_forms_in_units_of_one() -> None:
    K, noise, rows = kernel(), 0.3, [0, 11, 6, 3, 9, 0, 6, 1]
    gain = theory.information_gain(K[rows][:, rows], noise)
    total = sum(deviations(K, noise, rows))
    sharp = 2 * theory.sharp_psi(len(rows), [gain], variances=[1.0], noises=[noise])
    printed = 2 * theory.psi(len(rows), [gain])
    assert total <= sharp <= printed
    assert printed == pytest.approx(2 * math.sqrt(10 * gain))


@pytest.mark.parametrize(("variance", "noise"), [(1.0, 10.0), (400.0, 1.0)])
def test_lemma_4_as_printed_fails_in_other_units_and_the_sharp_form_does_not(variance: float, noise: float) -> None:
    K, T = kernel(6, scale=1e-3, variance=variance), 6
    total = sum(deviations(K, noise, list(range(T))))
    gain = largest_by_hand(K, noise, T)
    assert total > 2 * math.sqrt((T + 2) * gain)
    assert total <= 2 * theory.sharp_psi(T, [gain], variances=[variance], noises=[noise]) * (1 + 1e-12)


def test_the_theorems_share_one_bound() -> None:
    beta, psi, L = 30.0, 12.0, (2.0, 1.0, 0.5)
    assert theory.cumulative_bound(2.0, beta, psi) == pytest.approx(4 * 2 * math.sqrt(30) * 12)
    assert theory.best_bound(L, beta, psi, 10) == pytest.approx(4 * 3.5 * math.sqrt(30) * 12 / 10)
    assert theory.recommended_bound(L, 10.0, beta, psi, 10) == pytest.approx(4 * 17.0 * math.sqrt(30) * 12 / 10)
    assert theory.recommended_bound(L[:1], 10.0, beta, psi, 1) == theory.cumulative_bound(2.0, beta, psi)


def test_the_declaration_is_the_first_time_that_breaks_the_inequality() -> None:
    K = kernel(8)

    def bound(T: int) -> float:
        beta = theory.beta(T, outputs=1, **SET)
        return theory.cumulative_bound(0.1, beta, theory.psi(T, [theory.spectral_gain(K, 0.5, T)]))

    by_hand = next(T for T in itertools.count(1) if bound(T) < 2.0 * T)
    assert by_hand > 2
    assert theory.declaration(2.0, bound) == by_hand


def test_a_declaration_that_never_comes_is_none_and_a_feasible_problem_is_refused() -> None:
    assert theory.declaration(1.0, lambda T: 2.0 * T) is None
    with pytest.raises(SettingError, match="shortfall"):
        theory.declaration(0.0, lambda T: 1.0)


# ------------------------------------------------------------------------------------------------------ of a record


def test_regret_and_violation_of_a_record_are_added_up() -> None:
    f = np.array([[1.0, 0.5, -2.0], [4.0, -1.0, -1.0], [2.5, 0.0, 3.0]])
    regret, positive = theory.cumulative_regret(f, best=3.0)
    assert regret.tolist() == [2.0, 1.0, 1.5]
    assert positive.tolist() == [2.0, 2.0, 2.5]
    assert theory.cumulative_violation(f).tolist() == [[0.0, 2.0], [1.0, 3.0], [1.0, 3.0]]


def test_lipschitz_constants_say_where_they_are_from() -> None:
    problem = Problem(
        {"a": (0.0, 1.0)},
        ["p", "q"],
        maximize="3*a*p - 2*q",
        subject_to={"white": "a >= 0.1", "curved": "p*q >= 1", "told": "exp(p) <= 9"},
    )
    X = problem.from_unit(Stream(0).sobol(8, 1))
    Y = np.array([[0.0, -4.0], [2.0, 1.0]])
    found = theory.lipschitz(problem, X, Y, {"told": 7.0})
    assert found.how == ("affine", "white", "sampled", "given")
    assert found.values == pytest.approx((max(2.0, 3 * float(X.max())), 0.0, 4.0, 7.0))  # |q| <= 4 at a corner


# -------------------------------------------------------------------------------------------- boxes, and simulation


@pytest.mark.parametrize("name", ["matern 3/2", "matern 5/2", "squared exponential"])
def test_draws_differ_by_no_more_than_the_slack_from_the_nearest_point_of_a_net(name: str) -> None:
    found = theory.net(name, [0.4], 0.5, delta=0.1)
    fine = np.linspace(0, 1, 801)
    r = np.abs(fine[:, None] - fine) / 0.4
    K = np.vectorize(theory.PROFILES[name])(r)
    values, vectors = np.linalg.eigh(K)
    draws = (vectors * np.sqrt(np.maximum(values, 0))) @ Stream(1).normal(801, 300)
    (count,) = found.steps
    nearest = (np.minimum((fine * count).astype(int), count - 1) + 0.5) / count
    rows = np.abs(fine[:, None] - nearest).argmin(0)
    away = np.abs(draws - draws[rows]).max(0)
    assert (away <= found.slack).mean() >= 0.9
    assert away.max() > 0.05 * found.slack  # not out of proportion


def test_a_net_grows_with_what_is_asked_of_it() -> None:
    one = theory.net("matern 5/2", [0.3, 0.6], 0.2, delta=0.05)
    assert one.size == math.prod(one.steps)
    assert one.steps[0] == pytest.approx(2 * one.steps[1], rel=0.1)
    for finer in (
        theory.net("matern 5/2", [0.3, 0.6], 0.1, delta=0.05),
        theory.net("matern 5/2", [0.3, 0.6], 0.2, delta=0.001),
        theory.net("matern 5/2", [0.15, 0.6], 0.2, delta=0.05),
        theory.net("matern 5/2", [0.3, 0.6], 0.2, delta=0.05, outputs=9),
    ):
        assert finer.size > one.size
    assert theory.net("squared exponential", [100.0], 1.0, delta=0.5).size == 1
    with pytest.raises(SettingError, match="slack > 0"):
        theory.net("matern 5/2", [0.3], 0.0, delta=0.1)
    with pytest.raises(SettingError, match="positive length scales"):
        theory.net("linear", [0.3], 0.1, delta=0.1)


def test_calibrated_bounds_hold_as_often_as_asked_and_are_narrower_than_the_union_bound() -> None:
    K, T, noise = kernel(20), 10, 0.1
    z = theory.calibrated(K, noise, T, delta=0.1, draws=400)
    union = norm.isf(theory.tail(T - 1, delta=0.1, size=20, functions=1) / 2)
    assert 1.8 < z < union
    other = theory.calibrated(K, noise, T, delta=0.1, draws=400, seed=1)
    assert other == pytest.approx(z, rel=0.1)
    alone = theory.calibrated(np.eye(1), noise, 1, delta=0.1, draws=4000)
    assert alone == pytest.approx(norm.isf(0.05), rel=0.05)  # one point, nothing told: a normal
    independent = theory.calibrated(np.eye(30), noise, 1, delta=0.1, draws=4000)
    assert independent == pytest.approx(norm.isf((1 - 0.9 ** (1 / 30)) / 2), rel=0.05)
