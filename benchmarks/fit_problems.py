"""Problems of `fits.py`: residuals, standard starts and boxes.

The functions are those of More, Garbow and Hillstrom, Testing unconstrained optimization software, ACM Transactions on
Mathematical Software 7 (1981), and of More and Wild, SIAM Journal on Optimization 20 (2009), written from the formulas;
Misra1a is NIST's. The other curves have data made by a known truth with errors.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

BELOW, ABOVE = 2.0, 2.5
"""Ends of a box, in sizes of the coordinates of the start: not even, so that its centre is not the start."""
WORST = 1e150
"""A residual that is not finite, or larger, is this one: other routines stop there."""

Residuals = Callable[[ndarray], ndarray]


@dataclass(frozen=True)
class Fit:
    """Residuals of x, a start, and a box."""

    name: str
    residuals: Residuals
    start: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    """None: sizes of the start below and above it."""

    @property
    def box(self) -> tuple[ndarray, ndarray]:
        """Lower and upper ends."""
        x0 = np.array(self.start, dtype=float)
        size = np.maximum(1.0, np.abs(x0))
        low = x0 - BELOW * size if self.low is None else np.array(self.low, dtype=float)
        return low, x0 + ABOVE * size if self.high is None else np.array(self.high, dtype=float)

    def at(self, x: ndarray) -> ndarray:
        """Return the residuals, finite."""
        with np.errstate(all="ignore"):
            r = np.atleast_1d(self.residuals(np.asarray(x, dtype=float)))
        return np.clip(np.nan_to_num(r, nan=WORST, posinf=WORST, neginf=-WORST), -WORST, WORST)


# --- Functions of More, Garbow and Hillstrom --------------------------------------------------------------------------


def _linear(x: ndarray) -> ndarray:
    m = 15
    return np.concatenate([x, np.zeros(m - len(x))]) - 2.0 / m * x.sum() - 1.0


def _rank_one(x: ndarray) -> ndarray:
    return np.arange(1, 16) * (np.arange(1, len(x) + 1) @ x) - 1.0


def _rosenbrock(x: ndarray) -> ndarray:
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def _helical(x: ndarray) -> ndarray:
    theta = math.atan2(x[1], x[0]) / (2 * math.pi)
    theta = theta + 1 if theta < -0.25 else theta  # from -1/4 to 3/4
    return np.array([10 * (x[2] - 10 * theta), 10 * (math.hypot(x[0], x[1]) - 1), x[2]])


def _powell(x: ndarray) -> ndarray:
    return np.array(
        [
            x[0] + 10 * x[1],
            math.sqrt(5) * (x[2] - x[3]),
            (x[1] - 2 * x[2]) ** 2,
            math.sqrt(10) * (x[0] - x[3]) ** 2,
        ]
    )


def _freudenstein(x: ndarray) -> ndarray:
    a, b = x
    return np.array([a - 13 + ((5 - b) * b - 2) * b, a - 29 + ((b + 1) * b - 14) * b])


_BARD = np.array([0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39])


def _bard(x: ndarray) -> ndarray:
    u = np.arange(1, 16)
    v = 16 - u
    return _BARD - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


_KOWALIK = np.array([0.1957, 0.1947, 0.1735, 0.1600, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
_KOWALIK_U = np.array([4, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def _kowalik(x: ndarray) -> ndarray:
    u = _KOWALIK_U
    return _KOWALIK - x[0] * (u * u + u * x[1]) / (u * u + u * x[2] + x[3])


_MEYER = [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]


def _meyer(x: ndarray) -> ndarray:
    return x[0] * np.exp(x[1] / (45 + 5 * np.arange(1, 17) + x[2])) - np.array(_MEYER, dtype=float)


def _watson(x: ndarray) -> ndarray:
    t, j = np.arange(1, 30)[:, None] / 29, np.arange(len(x))
    slope = (j[1:] * x[1:] * t ** (j[1:] - 1)).sum(1)
    return np.concatenate([slope - (x * t**j).sum(1) ** 2 - 1, [x[0], x[1] - x[0] ** 2 - 1]])


def _box(x: ndarray) -> ndarray:
    t = 0.1 * np.arange(1, 11)
    return np.exp(-t * x[0]) - np.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10 * t))


def _jennrich(x: ndarray) -> ndarray:
    i = np.arange(1, 11)
    return 2 + 2 * i - (np.exp(i * x[0]) + np.exp(i * x[1]))


def _brown_dennis(x: ndarray) -> ndarray:
    t = np.arange(1, 21) / 5
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


_OSBORNE = np.fromstring(
    """
    0.844 0.908 0.932 0.936 0.925 0.908 0.881 0.850 0.818 0.784 0.751 0.718 0.685 0.658 0.628 0.603 0.580 0.558
    0.538 0.522 0.506 0.490 0.478 0.467 0.457 0.448 0.438 0.431 0.424 0.420 0.414 0.411 0.406
    """,
    sep=" ",
)


def _osborne(x: ndarray) -> ndarray:
    t = 10.0 * np.arange(33)
    return _OSBORNE - (x[0] + x[1] * np.exp(-t * x[3]) + x[2] * np.exp(-t * x[4]))


def _brown(x: ndarray) -> ndarray:
    return np.append(x[:-1] + x.sum() - (len(x) + 1), x.prod() - 1)


def _chebyquad(x: ndarray) -> ndarray:
    degrees = np.arange(1, 9)
    shifted = np.cos(degrees[:, None] * np.arccos(np.clip(2 * x - 1, -1, 1)))
    integral = np.where(degrees % 2 == 0, -1.0 / (np.maximum(degrees, 2) ** 2 - 1), 0.0)
    return shifted.mean(1) - integral


_OSBORNE_2 = np.fromstring(
    """
    1.366 1.191 1.112 1.013 0.991 0.885 0.831 0.847 0.786 0.725 0.746 0.679 0.608 0.655 0.616 0.606 0.602 0.626
    0.651 0.724 0.649 0.649 0.694 0.644 0.624 0.661 0.612 0.558 0.533 0.495 0.500 0.423 0.395 0.375 0.372 0.391
    0.396 0.405 0.428 0.429 0.523 0.562 0.607 0.653 0.672 0.708 0.633 0.668 0.645 0.632 0.591 0.559 0.597 0.625
    0.739 0.710 0.729 0.720 0.636 0.581 0.428 0.292 0.162 0.098 0.054
    """,
    sep=" ",
)


def _osborne_2(x: ndarray) -> ndarray:
    t = 0.1 * np.arange(65)
    peaks = sum(x[i] * np.exp(-x[i + 4] * (t - x[i + 7]) ** 2) for i in (1, 2, 3))
    return _OSBORNE_2 - (x[0] * np.exp(-x[4] * t) + peaks)


def _bdqrtic(x: ndarray) -> ndarray:
    n, s = len(x), x * x
    rest = [s[i] + 2 * s[i + 1] + 3 * s[i + 2] + 4 * s[i + 3] + 5 * s[n - 1] for i in range(n - 4)]
    return np.concatenate([3 - 4 * x[: n - 4], rest])


def _cube(x: ndarray) -> ndarray:
    return np.append(x[0] - 1, 10 * (x[1:] - x[:-1] ** 3))


def _mancino(x: ndarray) -> ndarray:
    n = len(x)
    i = np.arange(1, n + 1)
    v = np.sqrt(x[:, None] ** 2 + i[:, None] / i)
    log = np.log(v)
    terms = v * (np.sin(log) ** 5 + np.cos(log) ** 5)
    np.fill_diagonal(terms, 0.0)
    return 1400 * x[i - 1] + (i - 50) ** 3 + terms.sum(0)


def _mancino_start(n: int) -> list[float]:
    return (-8.710996e-4 * _mancino(np.zeros(n))).tolist()


# --- Fits of curves ---------------------------------------------------------------------------------------------------


def _curve(model: Callable[[ndarray], ndarray], truth: Sequence[float], error: float, seed: int) -> Residuals:
    """Return the residuals of a model to data made by a truth, with errors relative to the size of the curve."""
    y = np.asarray(model(np.array(truth, dtype=float)))
    data = y + error * np.abs(y).mean() * np.random.default_rng(seed).standard_normal(y.shape)
    return lambda x: np.asarray(model(x)) - data


def _inhibited(x: ndarray) -> ndarray:
    s = np.array([0.1, 0.2, 0.4, 0.7, 1, 2, 3, 5, 8, 12, 20, 30])
    return x[0] * s / (x[1] + s + s * s / x[2])


def _two_peaks(x: ndarray) -> ndarray:
    t = np.linspace(0, 10, 40)
    return x[0] * np.exp(-(((t - x[1]) / x[2]) ** 2)) + x[3] * np.exp(-(((t - x[4]) / x[5]) ** 2))


def _logistic(x: ndarray) -> ndarray:
    return x[0] / (1 + np.exp(-x[1] * (np.linspace(0, 10, 14) - x[2])))


def _consecutive(x: ndarray) -> ndarray:
    """A to B to C at two temperatures: amounts of A and B at six times each; rates by Arrhenius."""
    t, parts = np.linspace(0.5, 6, 6), []
    for inverse in (0.0, 0.6):
        k, q = math.exp(x[0] + x[1] * inverse), math.exp(x[2] + x[3] * inverse)
        a = np.exp(-k * t)
        between = q - k if abs(q - k) > 1e-9 else 1e-9
        parts += [a, k / between * (a - np.exp(-q * t))]
    return np.concatenate(parts)


def _swing(x: ndarray) -> ndarray:
    t = np.linspace(0, 6, 30)
    return x[0] * np.exp(-x[1] * t) * np.cos(x[2] * t + x[3]) + x[4]


_MISRA_X = np.array([77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0])
_MISRA_Y = np.array([10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78])


def _misra(x: ndarray) -> ndarray:
    return x[0] * (1 - np.exp(-x[1] * _MISRA_X)) - _MISRA_Y


def _antoine(x: ndarray) -> ndarray:
    return np.exp(x[0] - x[1] / (np.linspace(280, 400, 10) + x[2]))


def _isotherm(x: ndarray) -> ndarray:
    p = np.geomspace(0.02, 20, 12)
    bound = (x[1] * p) ** x[2]
    return x[0] * bound / (1 + bound)


FITS = (
    Fit("linear, full rank", _linear, [1] * 5, low=[-3] * 5),
    Fit("linear, rank one", _rank_one, [1] * 5),
    Fit("rosenbrock", _rosenbrock, [-1.2, 1]),
    Fit("helical valley", _helical, [-1, 0, 0]),
    Fit("powell singular", _powell, [3, -1, 0, 1]),
    Fit("freudenstein roth", _freudenstein, [0.5, -2], high=[8, 8]),
    Fit("bard", _bard, [1, 1, 1], low=[-1, 0.05, 0.05]),
    Fit("kowalik osborne", _kowalik, [0.25, 0.39, 0.415, 0.39], low=[0.001] * 4, high=[1.5] * 4),
    Fit("meyer", _meyer, [0.02, 4000, 250], [0.001, 3000, 200], [0.1, 9000, 500]),
    Fit("watson", _watson, [0] * 6),
    Fit("box", _box, [0, 10, 20]),
    Fit("jennrich sampson", _jennrich, [0.3, 0.4]),
    Fit("brown dennis", _brown_dennis, [25, 5, -5, -1]),
    Fit("osborne 1", _osborne, [0.5, 1.5, -1, 0.01, 0.02], [0, 0, -4, 0.001, 0.001], [1.5, 4, 0, 0.1, 0.1]),
    Fit("brown almost linear", _brown, [0.5] * 5),
    Fit("chebyquad", _chebyquad, (np.arange(1, 7) / 7).tolist(), [0] * 6, [1] * 6),
    Fit(
        "osborne 2", _osborne_2, [1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5],
        [0.3, 0.1, 0.1, 0.1, 0.1, 0.5, 1, 1, 1, 3.5, 5], [2.5, 1.5, 1.5, 1.5, 2, 8, 10, 12, 3.5, 5, 7],
    ),
    Fit("bdqrtic", _bdqrtic, [1] * 8),
    Fit("mancino", _mancino, _mancino_start(5)),
    Fit("cube", _cube, [0.5] * 5),
    Fit("inhibited enzyme", _curve(_inhibited, [2.4, 0.9, 7.0], 0.02, 21), [1, 3, 20], [0.1, 0.01, 0.5], [10, 10, 60]),
    Fit(
        "two peaks", _curve(_two_peaks, [1.0, 3.2, 0.8, 0.6, 5.4, 1.2], 0.02, 22), [0.8, 2.5, 1, 0.8, 6.5, 1],
        [0.1, 1, 0.3, 0.1, 4.5, 0.3], [2, 4.5, 3, 2, 8, 3],
    ),
    Fit("growth", _curve(_logistic, [8.0, 1.3, 4.2], 0.02, 23), [5, 0.5, 6], [1, 0.1, 0], [20, 4, 10]),
    Fit("consecutive reaction", _curve(_consecutive, [-0.4, -1.5, -1.2, -2.5], 0.02, 24), [-1, -1, -1, -1],
        [-4, -5, -4, -5], [2, 0, 2, 0]),
    Fit("swing", _curve(_swing, [1.4, 0.3, 2.6, 0.5, 0.2], 0.02, 25), [1, 0.1, 2, 0, 0], [0.2, 0, 1, -1.5, -1],
        [3, 1.5, 4, 1.5, 1]),
    Fit("misra 1a", _misra, [500, 0.0001], [50, 0.00005], [1000, 0.005]),
    Fit("vapour pressure", _curve(_antoine, [11.6, 3800.0, -45.0], 0.01, 27), [11, 3200, -20], [8, 2000, -100],
        [16, 6000, 0]),
    Fit("isotherm", _curve(_isotherm, [3.1, 0.7, 0.6], 0.01, 28), [5, 2, 1], [0.5, 0.01, 0.2], [10, 10, 2]),
    Fit("meyer, wide", _meyer, [0.02, 4000, 250], [-2, -4000, -250], [2, 16000, 1000]),
    Fit("osborne 1, wide", _osborne, [0.5, 1.5, -1, 0.01, 0.02]),
)  # fmt: skip
"""Numbered from 1. Even ones are for development."""
