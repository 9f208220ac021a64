"""The paper's guarantees as functions: levels, information gain, and the bounds of its lemmas and theorems.

Numbers in parentheses are equations of the paper. Its Assumptions 1 to 4: h is drawn from known independent Gaussian
processes on a finite set of `size` points; evaluations have normal noise of variance s^2 > 0; every g_i is Lipschitz in
y, in the 1-norm (27). T counts evaluations; points may be evaluated again.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy import ndarray

from pied.errors import SettingError
from pied.problem import Problem
from pied.rng import Stream
from pied.shapes import Float64, Int64

GREEDY_FRACTION = 1.0 - 1.0 / math.e
"""The greedy choice reaches at least this fraction of the largest information gain, which is submodular."""
MOST_OUTPUTS_WITH_CORNERS = 10
"""Outputs up to which slopes are also computed at all corners of the ranges, 2^m points."""
SLOPE_POINTS = 4096
"""Points inside the ranges at which slopes are computed."""
LATEST_DECLARATION = 10**12
"""Evaluations after which the search for a declaration ends."""
SMALLEST_EIGENVALUE = 1e-12
"""Of the largest: smaller eigenvalues of a covariance matrix are rounding error."""
PROFILES: dict[str, Callable[[float], float]] = {
    "squared exponential": lambda r: math.exp(-0.5 * r * r),
    "matern 5/2": lambda r: (1.0 + math.sqrt(5.0) * r + 5.0 * r * r / 3.0) * math.exp(-math.sqrt(5.0) * r),
    "matern 3/2": lambda r: (1.0 + math.sqrt(3.0) * r) * math.exp(-math.sqrt(3.0) * r),
}
"""Correlation at a scaled distance."""
CURVATURES = {"squared exponential": 1.0, "matern 5/2": 5.0 / 3.0, "matern 3/2": 3.0}
"""-k''(0): the squared Lipschitz constant of the kernel's distance."""
CHAIN = 60
"""Nets of a chain, each twice as fine: after so many the rest is below rounding."""
ROUNDING = 1e-9
"""Of a count."""


# ------------------------------------------------------------------------------------------------- levels and widths


def tail(t: int, *, delta: float, size: int, functions: int) -> float:
    """Return a_t = 6 delta / (pi^2 (t + 1)^2 functions size) of Lemma 1 (29), the probability of both tails at time t.

    `quantile.confidence` is the schedule of levels 1 - a_t / 2. The sum over times, points and functions is delta.
    """
    if t < 0 or not 0 < delta < 1 or size < 1 or functions < 1:
        raise SettingError(f"tails need t >= 0, 0 < delta < 1, size >= 1, functions >= 1, got {t}, {delta}, {size}")
    return 6.0 * delta / (math.pi**2 * (t + 1) ** 2 * functions * size)


def constant_level(T: int, *, delta: float, size: int, functions: int) -> float:
    """Return a constant level p at which all bounds of T evaluations hold with probability 1 - delta, as in Lemma 1.

    The union bound with equal tails delta / (T functions size), for `CUQB(level=p)` with a known budget.
    """
    if T < 1 or not 0 < delta < 1 or size < 1 or functions < 1:
        raise SettingError(f"a level needs T >= 1, 0 < delta < 1, size >= 1, functions >= 1, got {T}, {delta}, {size}")
    return 1.0 - delta / (2.0 * T * functions * size)


def beta(T: int, *, delta: float, size: int, functions: int, outputs: int) -> float:
    """Return beta_T = 2 log(m pi^2 T^2 (n + 1) size / (3 delta)) of Theorem 2: 2 log(2 m / a) at the tail of T - 1."""
    return 2.0 * math.log(2.0 * outputs / tail(T - 1, delta=delta, size=size, functions=functions))


@dataclass(frozen=True)
class Net:
    """Points of a box such that bounds at the nearest of them, widened by a slack, hold everywhere in the box."""

    steps: tuple[int, ...]
    """Points along each variable, each in the middle of its part of the range."""
    slack: float
    """By how much an output may differ from the nearest point's, in units of its prior deviation."""

    @property
    def size(self) -> int:
        """Number of points: the `size` of the levels, in place of that of a finite set."""
        return math.prod(self.steps)


def net(kernel: str, length_scales: Sequence[float], slack: float, *, delta: float, outputs: int = 1) -> Net:
    """Return a net of the unit cube: outputs differ by no more than the slack from their values at its nearest point.

    This holds with probability 1 - delta. It is a covering number for Lemma 1 on a box, by chaining: nets with cells of
    half-width e_n = 2^-n e length scales and N_n points. The nearest points of consecutive nets differ by a normal of
    deviation D(3/2 e_n d^(1/2)) at most, D(r)^2 = 2 - 2 k(r); there are 2^d N_(n+1) such pairs at most, and a union
    bound over them at delta 2^-(n+1) gives the slack

        sum_n D(3/2 e_n d^(1/2)) (2 log(2 m 2^d N_(n+1) 2^(n+1) / delta))^(1/2).

    Then `quantile.confidence(delta, net.size, functions)` with the other half of the probability are levels for a box.

    Args:
        kernel: "matern 3/2", "matern 5/2" or "squared exponential".
        length_scales: One for each variable, as a share of its range.
        slack: In units of the prior deviation.
        delta: Probability that it is exceeded anywhere.
        outputs: m, with the same kernel.
    """
    if kernel not in PROFILES or not length_scales or not all(0 < each < math.inf for each in length_scales):
        raise SettingError(f"a net needs one of {', '.join(PROFILES)} and positive length scales, got {kernel}")
    if not 0 < delta < 1 or not slack > 0 or outputs < 1:
        raise SettingError(f"a net needs slack > 0, 0 < delta < 1, outputs >= 1, got {slack}, {delta}, {outputs}")

    d = len(length_scales)

    def steps(cell: float) -> tuple[int, ...]:
        return tuple(math.ceil(0.5 / (cell * each) - ROUNDING) or 1 for each in length_scales)

    def exceeded(cell: float) -> float:
        total = 0.0
        for n in range(CHAIN):
            away, finer = cell * 0.5**n, sum(math.log(each) for each in steps(cell * 0.5 ** (n + 1)))
            union = math.log(2.0 * outputs * 2.0 ** (d + n + 1) / delta) + finer
            total += _apart(kernel, 1.5 * away * math.sqrt(d)) * math.sqrt(2.0 * union)
        return total

    low, high = 1e-9, 1.0 / min(length_scales)
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if exceeded(middle) <= slack else (low, middle)
    return Net(steps(low), slack)


def _apart(kernel: str, r: float) -> float:
    """Return the deviation of the difference of a process of variance 1 between points at a scaled distance."""
    if r < 1e-4:
        return r * math.sqrt(CURVATURES[kernel])  # an upper bound, without the rounding of the other form
    return math.sqrt(2.0 - 2.0 * PROFILES[kernel](r))


def calibrated(
    K: Float64[ndarray, "c c"],
    noise: float,
    T: int,
    *,
    delta: float,
    draws: int = 400,
    seed: int = 0,
) -> float:
    """Return how many deviations wide bounds must be to hold at all points before each of T evaluations, by simulation.

    The largest error in deviations of each of many draws of the process, when the point of the largest upper bound (at
    two deviations) is evaluated each time; of these the 1 - delta quantile, the larger neighbour. Lemma 1 is a union
    bound of the same: its normal quantile of 1 - a_t / 2 counts neighbouring points and times as independent.
    """
    _check_noise(noise)
    values, vectors = np.linalg.eigh(K)
    root, stream = vectors * np.sqrt(np.maximum(values, 0.0)), Stream(seed)
    H = (root @ stream.at("h").normal(len(K), draws)).T
    errors = noise * stream.at("noise").normal(draws, T)
    mean, covariance, each = np.zeros_like(H), np.tile(K, (draws, 1, 1)), np.arange(draws)
    largest = np.zeros(draws)
    for t in range(T):
        deviation = np.sqrt(np.maximum(covariance.diagonal(axis1=1, axis2=2), SMALLEST_EIGENVALUE * K.max()))
        largest = np.maximum(largest, (np.abs(H - mean) / deviation).max(1))
        rows = (mean + 2.0 * deviation).argmax(1)
        column = covariance[each, :, rows]
        gain = column / (column[each, rows] + noise**2)[:, None]
        mean = mean + gain * (H[each, rows] + errors[:, t] - mean[each, rows])[:, None]
        covariance = covariance - gain[:, :, None] * column[:, None, :]
    return float(np.sort(largest)[min(draws - 1, math.ceil((1.0 - delta) * (draws + 1)) - 1)])


def width_bound(lipschitz: float, beta: float, deviations: Float64[ndarray, "*b m"]) -> Float64[ndarray, "*b"] | float:
    """Return 2 L beta^(1/2) sum_j std_j of Lemma 3 (31), an upper bound on the width between the quantiles of g.

    Args:
        lipschitz: L of g.
        beta: 2 log(2 m / a).
        deviations: Standard deviation of each output.
    """
    return 2.0 * lipschitz * math.sqrt(beta) * deviations.sum(-1)


# -------------------------------------------------------------------------------------------------- information gain


def information_gain(K: Float64[ndarray, "a a"], noise: float) -> float:
    """Return 1/2 log det(I + K / s^2), the information in one evaluation at each of these points, (28).

    Args:
        K: Covariance of the process between the points; repeated rows for repeated evaluations.
        noise: s, standard deviation of the noise.
    """
    _check_noise(noise)
    return 0.5 * float(np.linalg.slogdet(np.eye(len(K)) + K / noise**2).logabsdet)


def greedy_gain(K: Float64[ndarray, "c c"], noise: float, T: int) -> tuple[Float64[ndarray, "T"], Int64[ndarray, "T"]]:
    """Return the information gain of the first 1 .. T greedily chosen points, and the points.

    Each point has the largest remaining variance; points may repeat. The largest gain of any T evaluations lies between
    the greedy gain and the greedy gain divided by 1 - 1/e.
    """
    _check_noise(noise)
    covariance = K.copy()
    gains, chosen = [], []
    for _ in range(T):
        best = int(covariance.diagonal().argmax())
        variance = max(0.0, float(covariance[best, best]))
        gains.append(0.5 * math.log1p(variance / noise**2))
        chosen.append(best)
        column = covariance[:, best].copy()
        covariance -= np.outer(column, column) / (variance + noise**2)
    return np.cumsum(gains), np.array(chosen, dtype=np.int64)


def spectral_gain(K: Float64[ndarray, "c c"], noise: float, T: int | float) -> float:
    """Return the largest gain of T measurements of linear functionals of unit norm, an upper bound on the largest gain.

    max 1/2 sum_i log(1 + m_i lambda_i / s^2) over m_i >= 0 with sum T, lambda the eigenvalues of K. Evaluations at
    points are a special case. Water-filling solves it in closed form, for any T.
    """
    _check_noise(noise)
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    kept = eigenvalues > SMALLEST_EIGENVALUE * eigenvalues[0]
    floors = noise**2 / eigenvalues[kept]  # m_i = level - floor_i where positive
    counts = np.arange(1, len(floors) + 1)
    levels = (T + floors.cumsum(0)) / counts
    used = int(np.flatnonzero(levels > floors)[-1]) + 1
    return 0.5 * float(np.log(levels[used - 1] / floors[:used]).sum())


def largest_gain(K: Float64[ndarray, "c c"], noise: float, T: int) -> tuple[float, float]:
    """Return a lower and an upper bound on gamma_T, the largest information gain of T evaluations (28)."""
    lower = float(greedy_gain(K, noise, T)[0][-1])
    return lower, min(lower / GREEDY_FRACTION, spectral_gain(K, noise, T))


def gain_rate(kernel: str, T: int | float, d: int) -> float:
    """Return the growth of gamma_T by Lemma 5, up to a factor that does not depend on T."""
    if kernel == "linear":
        return d * math.log(T)
    if kernel == "squared exponential":
        return math.log(T) ** (d + 1)
    nu = _smoothness(kernel)
    return T ** (d * (d + 1) / (2 * nu + d * (d + 1))) * math.log(T)


def convergence_rate(kernel: str, T: int | float, d: int) -> float:
    """Return (gamma_T / T)^(1/2), how fast the best regret and violation fall, up to a factor."""
    return math.sqrt(gain_rate(kernel, T, d) / T)


def _smoothness(kernel: str) -> float:
    known = {"matern 3/2": 1.5, "matern 5/2": 2.5}
    if kernel not in known:
        raise SettingError(
            f"rates are known for 'linear', 'squared exponential', 'matern 3/2', 'matern 5/2', got '{kernel}'"
        )
    return known[kernel]


def _check_noise(noise: float) -> None:
    if not 0 < noise < math.inf:
        raise SettingError(f"the theory needs noise with a standard deviation above 0, got {noise}")


# ----------------------------------------------------------------------------------------------- cumulative bounds


def psi(T: int, gains: Sequence[float]) -> float:
    """Return Psi_T = sum_j ((T + 2) gamma_j)^(1/2) as printed in Theorem 2.

    It rests on Lemma 4 (32): sum_t std_t(x_{t+1}) <= 2 ((T + 2) gamma_T)^(1/2). The lemma holds for prior variances of
    at most 1 and noise variances of at most 1.54; `sharp_psi` holds in any units.

    Args:
        T: Evaluations.
        gains: Largest information gain of each output, or an upper bound on it.
    """
    return sum(math.sqrt((T + 2) * gain) for gain in gains)


def sharp_psi(T: int, gains: Sequence[float], *, variances: Sequence[float], noises: Sequence[float]) -> float:
    """Return a Psi_T that is valid in any units: sum_j 1/2 (T C_j gamma_j)^(1/2), C = 2 v / log(1 + v / s^2).

    From std_t^2 <= v / log(1 + v / s^2) log(1 + std_t^2 / s^2), whose sum is 2 gamma, and Cauchy-Schwarz.

    Args:
        T: Evaluations.
        gains: Largest information gain of each output.
        variances: v, the largest prior variance of each output.
        noises: s, the standard deviation of each output's noise.
    """
    total = 0.0
    for gain, variance, noise in zip(gains, variances, noises, strict=True):
        _check_noise(noise)
        total += 0.5 * math.sqrt(T * 2.0 * variance / math.log1p(variance / noise**2) * gain)
    return total


def cumulative_bound(lipschitz: float, beta: float, psi: float) -> float:
    """Return 4 L beta_T^(1/2) Psi_T of Theorem 2 (33): bounds R_T and R_T+ with L_0, V_{i,T} with L_i."""
    return 4.0 * lipschitz * math.sqrt(beta) * psi


def best_bound(lipschitz: Sequence[float], beta: float, psi: float, T: int) -> float:
    """Return 4 (sum_i L_i) beta_T^(1/2) Psi_T / T of Theorem 3 (34): some proposed point is within it."""
    return cumulative_bound(sum(lipschitz), beta, psi) / T


def recommended_bound(lipschitz: Sequence[float], penalty: float, beta: float, psi: float, T: int) -> float:
    """Return 4 (L_0 + rho sum_i L_i) beta_T^(1/2) Psi_T / T of Theorem 4 (36): penalized regret by rule (14)."""
    return cumulative_bound(lipschitz[0] + penalty * sum(lipschitz[1:]), beta, psi) / T


def declaration(shortfall: float, bound: Callable[[int], float]) -> int | None:
    """Return T-bar of Theorem 5 (38): an infeasible problem is declared before the evaluation of this number.

    By its proof, T epsilon <= 4 L_i beta_T^(1/2) Psi_T until the declaration; T-bar is the first T that violates it.
    The same argument holds for the joint test, with epsilon = -max_x min_i f_i(x) and the largest L_i.

    Args:
        shortfall: epsilon > 0.
        bound: T -> 4 L_i beta_T^(1/2) Psi_T; T epsilon must stay above it once it is, as for gains that grow like
            log T.

    Returns:
        T-bar, or None if it exceeds 10^12.
    """
    if not shortfall > 0:
        raise SettingError(f"the shortfall of an infeasible problem is above 0, got {shortfall}")
    high = 1
    while high * shortfall <= bound(high):
        high *= 2
        if high > LATEST_DECLARATION:
            return None
    low = high // 2  # the inequality still holds, or this is 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle * shortfall <= bound(middle) else (low, middle)
    return high


# ------------------------------------------------------------------------------------------------------ of a record


def cumulative_regret(f: Float64[ndarray, "T k"], best: float) -> tuple[Float64[ndarray, "T"], Float64[ndarray, "T"]]:
    """Return R_T and R_T+ for T = 1, 2, ... (25).

    Args:
        f: Objective, to be maximized, and constraints at the proposed points, in order; of a study
            `study.data.functions(study.problem)`, if the black box is exact.
        best: f_0*, the largest objective of a feasible point.
    """
    regret = best - f[:, 0]
    return regret.cumsum(0), np.maximum(regret, 0.0).cumsum(0)


def cumulative_violation(f: Float64[ndarray, "T k"]) -> Float64[ndarray, "T n"]:
    """Return V_{i,T} for T = 1, 2, ... (26), one column per constraint; see `cumulative_regret`."""
    return np.maximum(-f[:, 1:], 0.0).cumsum(0)


@dataclass(frozen=True)
class Lipschitz:
    """Lipschitz constants of objective and constraints (27), and how each was found."""

    values: tuple[float, ...]
    how: tuple[str, ...]
    """"given", "white" (0), "affine" (exact: its slopes do not depend on y), or "sampled": the largest slope found
    inside the ranges and at their corners; the function may be steeper elsewhere."""


def lipschitz(
    problem: Problem,
    X: Float64[ndarray, "b d"],
    Y: Float64[ndarray, "N m"],
    given: dict[str, float] | None = None,
) -> Lipschitz:
    """Return L_i = max |dg_i/dy_j| over points x and ranges of outputs; the dual of the 1-norm is the maximum norm.

    Args:
        problem: The white box.
        X: Points, natural units.
        Y: Told or expected outputs; the ranges are their smallest and largest values.
        given: Known constants, by name of the function.
    """
    known = given or {}
    low, high = Y.min(0), Y.max(0)
    part = Stream(0).at("slopes").sobol(SLOPE_POINTS, problem.m)
    if problem.m <= MOST_OUTPUTS_WITH_CORNERS:
        part = np.concatenate([part, list(product((0.0, 1.0), repeat=problem.m))])
    samples = low + part * (high - low)
    values, how = [], []
    for i, name in enumerate(problem.functions):
        kind = problem.structure[i].kind
        if name in known or kind == "white":
            values.append(float(known.get(name, 0.0)))
            how.append("given" if name in known else "white")
            continue
        values.append(_steepest(problem, i, X, samples[:1] if kind == "affine" else samples))
        how.append("affine" if kind == "affine" else "sampled")
    return Lipschitz(tuple(values), tuple(how))


@np.errstate(all="ignore")
def _steepest(problem: Problem, i: int, X: Float64[ndarray, "b d"], samples: Float64[ndarray, "L m"]) -> float:
    """Return the largest slope of a function with respect to any output."""
    steepest = 0.0
    for x in X:
        G, back = problem.traced(x[None], samples[:, None, :], (i,))
        _, slope = back(np.ones_like(G))
        steepest = max(steepest, float(np.abs(slope).max()))
    return steepest
