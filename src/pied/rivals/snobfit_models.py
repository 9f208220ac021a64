"""The parts of SNOBFIT: boxes with one point each, safeguarded neighbours, local linear and quadratic models.

After W. Huyer and A. Neumaier, SNOBFIT: stable noisy optimization by branch and fit, ACM TOMS 35 (2008), article 9.
Functions are minimized on the unit cube; N points, d variables, b neighbours.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from pied.shapes import Bool, Float64, Int64

GOLDEN = (5**0.5 - 1) / 2  # fraction of a gap that goes to the better of its two points
EXTRA_NEIGHBOURS = 5  # beyond d: the degrees of freedom from which a linear model estimates its error
SMALLEST_SINGULAR = 1e-4  # of the largest: neighbours that hardly span a direction determine its slope badly
LOCAL_DROP = 0.2  # of the neighbours' range: a local minimum is at least this far below all of them
THIN_ASPECT = 0.05  # a box is thin if its shortest side is below this fraction of its longest (the authors' value)
EXACT_UNCERTAINTY = float(np.finfo(np.float64).eps) ** 0.5  # relative, of a value without noise
SMALLEST_DIVISOR = 1e-300  # keeps divisions and logarithms finite
LEAST_SPAN = 1e-12  # of the largest: smaller singular values and weights of a quadratic fit are rounding error


@dataclass(frozen=True, eq=False)
class Boxes:
    """A partition of the unit cube: box j is [lower_j, upper_j] and holds point j alone."""

    U: Float64[np.ndarray, "N d"]
    F: Float64[np.ndarray, "N"]
    lower: Float64[np.ndarray, "N d"]
    upper: Float64[np.ndarray, "N d"]

    @classmethod
    def of(cls, U: Float64[np.ndarray, "N d"], F: Float64[np.ndarray, "N"]) -> "Boxes":
        """Divide the whole cube until every point has its own box."""
        nothing = np.zeros((0, U.shape[1]))
        return cls(nothing, np.zeros(0), nothing, nothing).with_points(U, F)

    def with_points(self, U: Float64[np.ndarray, "b d"], F: Float64[np.ndarray, "b"]) -> "Boxes":
        """Divide the boxes that contain new points; a repeated point gets the mean of its values."""
        known, values, counts = list(self.U), list(self.F), [1] * len(self.F)
        for u, f in zip(U, F, strict=True):
            same = [j for j, other in enumerate(known) if np.array_equal(other, u)]
            if same:
                j = same[0]
                values[j] += (f - values[j]) / (counts[j] + 1)
                counts[j] += 1
            else:
                known.append(u)
                values.append(float(f))
                counts.append(1)
        every, value = np.array(known).reshape(-1, U.shape[1]), np.array(values)
        lower, upper = np.zeros_like(every), np.ones_like(every)
        old = len(self.U)
        lower[:old], upper[:old] = self.lower, self.upper
        guests: dict[int, list[int]] = {}
        for j in range(old, len(every)):
            homes = ((self.lower <= every[j]) & (every[j] <= self.upper)).all(1).nonzero()[0]
            guests.setdefault(int(homes[0]) if old else -1, []).append(j)
        for home, new in guests.items():
            if home < 0:
                _split(every, value, lower, upper, new, np.zeros(every.shape[1]), np.ones(every.shape[1]))
            else:
                _split(every, value, lower, upper, [home, *new], self.lower[home], self.upper[home])
        return Boxes(every, value, lower, upper)

    @property
    def smallness(self) -> Float64[np.ndarray, "N"]:
        """Number of halvings from the cube to each box, about: - sum_i round(log2(side_i))."""
        sides = np.maximum(self.upper - self.lower, SMALLEST_DIVISOR)
        return -np.round(np.log2(sides)).sum(1)

    @property
    def is_thin(self) -> Bool[np.ndarray, "N"]:
        """Which boxes have a side far shorter than another."""
        sides = self.upper - self.lower
        return sides.min(1) <= THIN_ASPECT * sides.max(1)

    def home(self, u: Float64[np.ndarray, "d"]) -> int:
        """Return the box that contains a point."""
        return int(((self.lower <= u) & (u <= self.upper)).all(1).argmax())

    def farthest(self) -> Float64[np.ndarray, "N d"]:
        """Return for each box the midpoint between its point and the corner farthest from it."""
        below, above = self.U - self.lower, self.upper - self.U
        return np.where(below > above, 0.5 * (self.lower + self.U), 0.5 * (self.U + self.upper))


def _split(
    U: Float64[np.ndarray, "N d"],
    F: Float64[np.ndarray, "N"],
    lower: Float64[np.ndarray, "N d"],
    upper: Float64[np.ndarray, "N d"],
    members: list[int],
    low: Float64[np.ndarray, "d"],
    high: Float64[np.ndarray, "d"],
) -> None:
    """Divide one box among its points, writing into `lower` and `upper`.

    Cut across the coordinate in which the points vary most, in the widest gap, by the golden section; the better
    neighbour of the cut gets the larger part of the gap.
    """
    waiting = [(members, low, high)]
    while waiting:
        members, low, high = waiting.pop()
        if len(members) == 1:
            lower[members[0]], upper[members[0]] = low, high
            continue
        i = int(np.argmax(U[members].var(0)))
        order = sorted(members, key=lambda j: U[j, i])
        gaps = np.diff(U[order, i])
        j = int(np.argmax(gaps))
        share = GOLDEN if F[order[j]] <= F[order[j + 1]] else 1.0 - GOLDEN
        cut = U[order[j], i] + share * gaps[j]
        below, above = high.copy(), low.copy()
        below[i] = above[i] = cut
        waiting += [(order[: j + 1], low, below), (order[j + 1 :], above, high)]


def neighbours(
    U: Float64[np.ndarray, "N d"], x: Float64[np.ndarray, "d"], resolution: float, count: int
) -> Int64[np.ndarray, "b"]:
    """Return safeguarded nearest neighbours of x among the points.

    For each coordinate, take the nearest unchosen point that differs in it by at least the resolution, so that every
    direction is spanned; then the nearest of the others, up to `count`. The point x itself is excluded.
    """
    away = np.linalg.norm(U - x, axis=1)
    order = np.argsort(away, kind="stable")
    order = order[away[order] > 0]
    apart = np.abs(U[order] - x) >= resolution
    free = np.ones(len(order), dtype=bool)
    chosen: list[int] = []
    for i in range(len(x)):
        able = (free & apart[:, i]).nonzero()[0][:1]
        free[able] = False
        chosen += able.tolist()
    chosen += free.nonzero()[0][: max(0, count - len(chosen))].tolist()
    return order[np.array(chosen[:count], dtype=np.int64)]


@dataclass(frozen=True, eq=False)
class Linear:
    """A local linear model f + g'(z - x) with an estimate of its error."""

    slope: Float64[np.ndarray, "d"]
    error: float
    """Estimated standard deviation, in units of Q."""
    step: Float64[np.ndarray, "d"]
    """Half-widths of the box in which it is trusted."""
    weights: Float64[np.ndarray, "d"]
    """Diagonal of D, which weights the distances."""
    noise: float

    @classmethod
    def fit(
        cls,
        x: Float64[np.ndarray, "d"],
        f: float,
        U: Float64[np.ndarray, "b d"],
        F: Float64[np.ndarray, "b"],
        resolution: float,
        noise: float,
    ) -> "Linear":
        """Fit f_k - f = g'(x_k - x) + error_k Q_k, with Q_k = (x_k - x)'D(x_k - x) + noise.

        Near neighbours have more weight, so that curvature does not bias the slope.
        """
        S = U - x
        reach = np.maximum(np.abs(S).max(0), resolution)
        weights = reach**-2.0
        Q = (S**2 * weights).sum(1) + noise
        A, rhs = S / Q[:, None], (F - f) / Q
        left, singular, right = np.linalg.svd(A, full_matrices=False)
        floored = np.maximum(singular, SMALLEST_SINGULAR * max(singular[0], SMALLEST_DIVISOR))
        slope = right.T @ ((left.T @ rhs) / floored)
        error = float(np.linalg.norm(A @ slope - rhs) / max(1, len(F) - len(x)) ** 0.5)
        return cls(slope, error, np.maximum(0.5 * np.abs(S).max(0), resolution), weights, noise)

    def best(self, x: Float64[np.ndarray, "d"]) -> Float64[np.ndarray, "d"]:
        """Return the minimizer of the cautious prediction in the trusted box within the unit cube.

        Each coordinate has its own parabola, because the estimated error grows with the square of the step. Without an
        error the minimizer is a corner of the box, towards the middle of the cube where the slope is zero too.
        """
        towards = np.where(self.slope > 0, -1.0, np.where(self.slope < 0, 1.0, np.where(x <= 0.5, 1.0, -1.0)))
        bend = 2.0 * self.error * self.weights
        reach = np.minimum(self.step, np.abs(self.slope) / np.maximum(bend, SMALLEST_DIVISOR))
        return np.clip(x + towards * np.where(bend > 0, reach, self.step), 0.0, 1.0)

    def predicted(self, x: Float64[np.ndarray, "d"], f: float, z: Float64[np.ndarray, "d"]) -> float:
        """Return a cautious prediction at z: the model plus its estimated error."""
        s = z - x
        return float(f + self.slope @ s + self.error * ((s**2 * self.weights).sum() + self.noise))


@dataclass(frozen=True, eq=False)
class Quadratic:
    """A local quadratic model g's + s'Gs / 2 of the difference to a point, s the step from it."""

    slope: Float64[np.ndarray, "d"]
    curvature: Float64[np.ndarray, "d d"]

    @classmethod
    def fit(
        cls, x: Float64[np.ndarray, "d"], f: float, U: Float64[np.ndarray, "b d"], F: Float64[np.ndarray, "b"]
    ) -> "Quadratic":
        """Fit f_k - f = g's_k + s_k'G s_k / 2 + error_k Q_k, with Q_k = (s_k'H s_k)^(3/2), H^-1 = sum_k s_k s_k'.

        The error of a quadratic model grows with the cube of the distance. In coordinates in which H is the identity
        the fit does not depend on units; with too few points it is the one of least norm there.
        """
        S = U - x
        d = len(x)
        _, singular, right = np.linalg.svd(S, full_matrices=False)
        back = right.T * np.maximum(
            singular, LEAST_SPAN * max(singular[0], SMALLEST_DIVISOR)
        )  # s = back @ t; H is the identity for t
        T = S @ np.linalg.pinv(back).T
        rows, columns = np.triu_indices(d)
        products = T[:, rows] * T[:, columns] * np.where(rows == columns, 0.5, 1.0)
        Q = np.maximum((T**2).sum(1), SMALLEST_DIVISOR) ** 1.5
        Q = np.maximum(Q, LEAST_SPAN * Q.max())
        solution = np.linalg.lstsq(np.hstack([T, products]) / Q[:, None], (F - f) / Q, rcond=LEAST_SPAN)[0]
        G = np.zeros((len(back.T), len(back.T)))
        G[rows, columns] = G[columns, rows] = solution[d:]
        forth = np.linalg.pinv(back)
        return cls(forth.T @ solution[:d], forth.T @ G @ forth)

    def best(
        self, x: Float64[np.ndarray, "d"], step: Float64[np.ndarray, "d"], starts: Float64[np.ndarray, "s d"]
    ) -> Float64[np.ndarray, "d"]:
        """Return the lowest of the minimizers of the model in the box x - step .. x + step within the cube."""
        low, high = np.maximum(-step, -x), np.minimum(step, 1.0 - x)
        found = []
        for start in starts:
            done = optimize.minimize(
                lambda s: (self.slope @ s + 0.5 * s @ self.curvature @ s, self.slope + self.curvature @ s),
                np.clip(start, low, high),
                jac=True,
                method="L-BFGS-B",
                bounds=optimize.Bounds(low, high),
            )
            found.append((float(done.fun), np.asarray(done.x)))
        return np.clip(x + min(found, key=lambda each: each[0])[1], 0.0, 1.0)


def is_local(f: float, others: Float64[np.ndarray, "b"]) -> bool:
    """Tell whether a value is clearly below those of all neighbours, so that a local minimum may be near."""
    return bool(f < others.min() - LOCAL_DROP * (others.max() - others.min()))


def is_apart(u: Float64[np.ndarray, "d"], U: Float64[np.ndarray, "N d"], distance: float) -> bool:
    """Tell whether a point differs from each of the others by at least a distance in some coordinate."""
    apart: Bool[np.ndarray, "N"] = (np.abs(U - u) >= distance).any(1)
    return bool(apart.all())
