"""The two realistic problems, the spill and the Williams-Otto reactor, and the paper's two illustrations.

`spill` and `williams_otto` are plain functions of numbers, for use without the problems.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy import ndarray

from pied.shapes import Float64
from pied.suite.benchmark import Benchmark, state
from pied.suite.elementary import Number, cos, exp, sin, sqrt

# --- A chemical spilled twice into a long narrow channel -------------------------------------------------------------

POSITIONS = (1.0, 1.5, 2.5, 3.0)
"""Where concentrations are measured, along the channel."""
TIMES = (10.0, 20.0, 30.0, 40.0, 50.0, 60.0)
"""When they are measured; the second spill falls between 30 and 40."""
SITES = tuple((s, t) for s in POSITIONS for t in TIMES)
"""Position and time of each of the 24 outputs."""
TRUE_SPILL = (10.0, 0.07, 1.505, 30.1525)
"""Mass, diffusion rate, position and time of the second spill from which the measurements were computed."""


def _plume(mass: Number, diffusion: Number, distance: Number, age: Number) -> Number:
    """Return the concentration of one point release after diffusion."""
    spread = 4 * diffusion * age
    return mass / sqrt(math.pi * spread) * exp(-(distance**2) / spread)


def _second(mass: Number, diffusion: Number, distance: Number, age: Number) -> Number:
    """Return the plume of the second release: zero before it, without an infinite slope at its time."""
    if isinstance(age, ndarray):
        happened = age > 0
        return np.where(happened, _plume(mass, diffusion, distance, np.where(happened, age, 1.0)), 0.0)
    return _plume(mass, diffusion, distance, age) if age > 0 else 0.0


def _spill(M: Number, D: Number, L: Number, tau: Number) -> tuple[Number, ...]:
    return tuple(_plume(M, D, s, t) + _second(M, D, s - L, t - tau) for s, t in SITES)


def _site(s: float, t: float) -> str:
    return f"c({s:g},{t:g})"


def spill(M: float, D: float, L: float, tau: float) -> dict[str, float]:
    """Return the 24 concentrations after two equal releases, by name, for instance 'c(1.5,40)' (position, time).

    Args:
        M: mass released each time.
        D: diffusion rate of the channel.
        L: position of the second release (the first is at 0).
        tau: time of the second release (the first is at 0).
    """
    concentrations = _spill(float(M), float(D), float(L), float(tau))
    return {_site(s, t): float(c) for (s, t), c in zip(SITES, concentrations, strict=True)}


MEASURED = tuple(float(c) for c in _spill(*TRUE_SPILL))
"""The measured concentrations, computed from the true spill."""


def environmental() -> Benchmark:
    """Find mass, rate, position and time of a spill from 24 concentrations; the optimum is the centre of the box."""
    return state(
        "environmental",
        _spill,
        variables={"M": (7.0, 13.0), "D": (0.02, 0.12), "L": (0.01, 3.0), "tau": (30.01, 30.295)},
        outputs=[_site(s, t) for s, t in SITES],
        minimize="sum((outputs - measured)**2)",
        constants={"measured": MEASURED},
        inputs={_site(s, t): ["M", "D"] for s, t in SITES if t <= 30},
        ranges={_site(s, t): (0.0, None) for s, t in SITES},
        value=0.0,
        at=list(TRUE_SPILL),
        source="proved: a sum of squares, all zero",
    )


# --- The Williams-Otto reactor ---------------------------------------------------------------------------------------

FEED_A = 1.8275
"""Feed of pure A, kg/s."""
HOLDUP = 2105.2
"""Mass in the reactor, kg."""
KINETICS = ((1.6599e6, 6666.7), (7.2117e8, 8333.3), (2.6745e12, 11111.0))
"""Rate constant (1/s) and activation temperature (K) of A + B -> C, B + C -> P + E, C + P -> G."""
ZERO_CELSIUS = 273.15  # K
BISECTIONS = 30  # to 1e-9, from a bracket of width one at most; three Newton steps then reach machine precision
NEWTON_STEPS = 3


def _steady_state(
    F_B: Float64[ndarray, "*b"],
    T_r: Float64[ndarray, "*b"],
    F_A: float | Float64[ndarray, "*b"] = FEED_A,
    activity: float | Float64[ndarray, "*b"] = 1.0,
) -> dict[str, Float64[ndarray, "*b"]]:
    """Return the six mass fractions of the unique physical steady state, at many points at once.

    Given X_B, the balances of A and of C have one positive solution each, and the balance of B decreases strictly in
    X_B: bisection cannot fail, and a few Newton steps reach machine precision.
    """
    total = F_A + F_B
    k1, k2, k3 = (HOLDUP * activity * k * np.exp(-e / (T_r + ZERO_CELSIUS)) for k, e in KINETICS)

    def balance(X_B: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Return X_A, X_C, the surplus of B and its slope in X_B."""
        X_A = F_A / (total + k1 * X_B)
        r1, dr1 = k1 * X_A * X_B, k1 * X_A * total / (total + k1 * X_B)
        a, s = k2 * X_B, 2 * r1
        q2, q1, q0 = k3 * (total + 4 * a) / 2, total * (total + 2 * a) - k3 * s / 2, -s * total
        root = np.sqrt(q1**2 - 4 * q2 * q0)
        X_C = np.where(q1 > 0, -2 * q0 / np.maximum(q1 + root, 1e-300), (root - q1) / (2 * q2))
        dX_C = (dr1 * (k3 * X_C + 2 * total) - 2 * k2 * (k3 * X_C**2 + total * X_C)) / root
        return X_A, X_C, F_B - r1 - a * X_C - total * X_B, -(dr1 + k2 * X_C + a * dX_C + total)

    low, high = np.zeros_like(total), F_B / total
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_above = balance(middle)[2] > 0
        low, high = np.where(is_above, middle, low), np.where(is_above, high, middle)
    X_B = (low + high) / 2
    for _ in range(NEWTON_STEPS):
        _, _, surplus, slope = balance(X_B)
        X_B = X_B - surplus / slope
    X_A, X_C, _, _ = balance(X_B)
    X_P = k2 * X_B * X_C / (total + k3 * X_C / 2)
    return {
        "X_A": X_A,
        "X_B": X_B,
        "X_C": X_C,
        "X_E": 2 * k2 * X_B * X_C / total,
        "X_P": X_P,
        "X_G": 1.5 * k3 * X_C * X_P / total,
    }


def williams_otto(F_B: float, T_r: float, *, F_A: float = FEED_A, activity: float = 1.0) -> dict[str, float]:
    """Return the six mass fractions in the Williams-Otto reactor at steady state: X_A, X_B, X_C, X_E, X_P, X_G.

    Args:
        F_B: feed of pure B, kg/s (positive).
        T_r: temperature of the reactor, degrees Celsius.
        F_A: feed of pure A, kg/s.
        activity: of a catalyst, by which all rates are multiplied.
    """
    found = _steady_state(np.array([float(F_B)]), np.array([float(T_r)]), float(F_A), float(activity))
    return {name: float(fraction[0]) for name, fraction in found.items()}


def _reactor(F_B: Number, T_r: Number) -> tuple[Number, ...]:
    if isinstance(F_B, ndarray) and isinstance(T_r, ndarray):
        whole: Mapping[str, Number] = _steady_state(F_B, T_r)
    else:
        whole = williams_otto(float(F_B), float(T_r))
    return tuple(whole[name] for name in ("X_A", "X_G", "X_P", "X_E"))


def williams_otto_reactor() -> Benchmark:
    """Maximize profit over feed and temperature, with limits on residual A and byproduct G."""
    return state(
        "williams-otto",
        _reactor,
        variables={"F_B": (4.0, 7.0), "T_r": (70.0, 100.0)},
        outputs=["X_A", "X_G", "X_P", "X_E"],
        maximize="(1043.38*X_P + 20.92*X_E)*(F_A + F_B) - 79.23*F_A - 118.34*F_B",
        subject_to={"residual A": "X_A <= 0.12", "byproduct G": "X_G <= 0.08"},
        constants={"F_A": FEED_A},
        ranges=dict.fromkeys(("X_A", "X_G", "X_P", "X_E"), (0.0, 1.0)),
        value=75.81995320152093,
        at=[4.389358031323633, 80.49481940850534],
        source="every local search and a scan of 601 x 601 points end here; no formal proof",
        feasible=0.4660,
    )


# --- Illustrations ---------------------------------------------------------------------------------------------------


def _wave(x: Number) -> tuple[Number, ...]:
    return (sin(x) + cos(x),)


def illustrative_1d() -> Benchmark:
    """The square of an unknown wave: two equal maxima, at the largest and at the smallest value of h."""
    return state(
        "illustrative-1d",
        _wave,
        variables={"x": (0.0, 2 * math.pi)},
        outputs=["y"],
        maximize="y**2",
        value=2.0,
        at=[math.pi / 4],
        others=[[5 * math.pi / 4]],
        source="proved: y^2 = 1 + sin 2x",
    )


def _himmelblau(x1: Number, x2: Number) -> tuple[Number, ...]:
    return ((x1**2 + x2 - 11) ** 2 + (x1 + x2**2 - 7) ** 2,)


def illustrative_constraint() -> Benchmark:
    """Four islands on which Himmelblau's function is at most ten; without an objective."""
    return state(
        "illustrative-constraint",
        _himmelblau,
        variables={"x1": (-4.0, 4.0), "x2": (-4.0, 4.0)},
        outputs=["y"],
        subject_to={"islands": "y**2 <= 100"},
        ranges={"y": (0.0, None)},
        value=None,
        at=None,
        source="no objective",
        feasible=0.0660,
    )


APPLIED: dict[str, Callable[[], Benchmark]] = {"environmental": environmental, "williams-otto": williams_otto_reactor}
"""Name to statement of the two realistic problems."""
ILLUSTRATIVE: dict[str, Callable[[], Benchmark]] = {
    "illustrative-1d": illustrative_1d,
    "illustrative-constraint": illustrative_constraint,
}
"""Name to statement of the paper's two illustrations."""
