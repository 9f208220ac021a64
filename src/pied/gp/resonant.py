"""Resonances: outputs with a narrow ridge or trench, straight or bent, that crosses the inputs at any angle.

No length scales along the inputs describe such a ridge, and a belief that has only these needs several points to each
of its widths. With the place across the ridge (`kernels.crossed`) as further inputs, the rest is smooth. Where the
ridge lies can be learned from a few points near it. The likelihood has many narrow peaks, so thousands of ridges near
the told values that are explained worst are compared by a crude likelihood, the best are varied, and the likeliest are
fitted together with the length scales.

A ridge has slopes, bends and an offset (`kernels.across`), 2d + 1 numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from pied.gp import descent, likelihood
from pied.gp.kernels import across, crossed, crossed_by_widths
from pied.gp.likelihood import Fit, Tasks
from pied.gp.periodic import beside
from pied.rng import Stream
from pied.shapes import Bool, Float64, Int

SCREENED = 8192  # ridges that are compared at first
CENTRES = 6  # told values near which they lie: those that are explained worst
WIDTHS = (0.003, 0.05)  # of the box: the least and the largest half width at half height
SPARSE = 0.25  # chance that a ridge does not depend on an input
BEND = 0.5  # deviation of a bend, in units of the slopes
VARIED = 64  # the best of which are varied, ...
VARIANTS = 32  # ... each so often, ...
STEPS = (0.1, 0.05, 0.02, 0.01, 0.005)  # ... by so much of the slopes, in turn
WIDTHS_OFF = 20.0  # by which the offset is varied, for each unit of such a step
REST_LENGTH = 0.3  # length scale of what is left without a ridge, in units of sqrt(inputs)
REST_NUGGET = 1e-3  # of it: a ridge that is nearly right should look so
LEAST_GAIN = 40.0  # nats by which a ridge must explain an output better than none; kinks gain less
FIRST_GAIN = 20.0  # nats by which the best of the first ones must, or none is varied
AT_ONCE = 1024  # ridges that are worked on together
BEGUN = 6  # ridges whose fit is begun, ...
BEGUN_STEPS = 40  # ... by so many iterations, ...
KEPT = 3  # ... and those that are fitted
DIFFERENT = 0.3  # of the angle arctan s at some told point, by which two of them differ
LOOSE_NUGGET = 1e-5  # of exact outputs in the first of two fits
UNIT = 5.0  # of slopes and bends while they are fitted: what moves a point at some distance by a width
LARGEST = 1e4  # slope, bend or offset, in these units
FOUND_WIDTHS = (0.002, 0.06)  # of the box: a wider ridge is a cliff, a narrower one is one wrong value
NEAR = 3.0  # widths: within it a ridge is high, beyond it lie its sides
LEAST_NEAR = 2  # told points that have to be so near, ...
LEAST_BESIDE = 3  # ... and on either side
CLIFFS = tuple((steep, aside) for steep in (1.0, 10.0, 100.0) for aside in (-1.0, 0.0, 1.0))
"""Cliffs with which a ridge is compared: how many times as steep, and how many widths beside it."""


class Resonance(NamedTuple):
    """A possible resonance, and the hyperparameters from which to fit it."""

    place: tuple[float, ...]
    """Slopes, bends and offset."""
    theta: tuple[float, ...]
    """Logarithms of length scales: of the inputs, of the two columns across the ridge; then of the nugget."""


def is_ridge(place: Sequence[float], U: Float64[ndarray, "n d"]) -> bool:
    """Whether a fitted resonance is a narrow ridge between told points, which show it.

    The same columns stretch a cliff, and lead through one wrong value.
    """
    places, d = np.array([place]), U.shape[1]
    s = across(U, places)[0]
    nearest = U[np.abs(s).argmin()]
    slopes = places[0, :d] + 2.0 * places[0, d:-1] * nearest
    width = 1.0 / max(float(np.sqrt(slopes @ slopes)), 1e-12)
    low, high = FOUND_WIDTHS
    is_between = min((s < -NEAR).sum(), (s > NEAR).sum()) >= LEAST_BESIDE
    return bool(low <= width <= high and is_between and (np.abs(s) < NEAR).sum() >= LEAST_NEAR)


def density_of_cliffs(
    task: Tasks, U: Float64[ndarray, "N d"], theta: Float64[ndarray, "1 q"], place: Sequence[float], iterations: int
) -> float:
    """Return the leave-one-out density with the best cliff at the place of a ridge instead of it.

    Args:
        task: The regression with the ridge.
        U: The points, in the unit cube.
        theta: Its hyperparameters.
        place: Slopes, bends and offset.
        iterations: Of the fit.
    """
    s, d = across(U, np.array([place])), U.shape[1]
    sides = np.concatenate([0.5 + np.arctan(steep * (s + aside)) / math.pi for steep, aside in CLIFFS])
    tasks = beside(task.at(np.zeros(len(sides), dtype=int)), d, np.stack([sides, np.full_like(sides, 0.5)], -1))
    _, fit = descent.optimize(tasks, np.repeat(theta, len(sides), 0), iterations)
    return float(fit.density.max())


# --- Which ridges there may be ----------------------------------------------------------------------------------------


def likeliest(task: Tasks, U: Float64[ndarray, "N d"], theta: Float64[ndarray, "q"]) -> list[Resonance]:
    """Return the likeliest resonances of one output, nearly fitted, at most `KEPT`; none that explains hardly more.

    Args:
        task: Its regression without a resonance.
        U: The points, in the unit cube.
        theta: Hyperparameters of that regression.
    """
    d = U.shape[1]
    used = task.active[0, :d] > 0
    missed = np.abs(likelihood.left_out(task, theta[None])[0, :, 0])
    scale = math.log(REST_LENGTH * math.sqrt(max(1, int(used.sum()))))
    screen = _Screen(task, np.array([scale] * d + [math.log(REST_NUGGET)]), U)
    places = _drawn(U[np.argsort(-missed)[:CENTRES]], used)
    loss = screen.losses(places)
    if not loss.min() <= screen.without - FIRST_GAIN:
        return []
    for number, step in enumerate(STEPS):
        places = _varied(places[np.argsort(loss)[:VARIED]], U, used, step, Stream(0).at("variants", number))
        loss = screen.losses(places)
    if not loss.min() <= screen.without - LEAST_GAIN:
        return []
    places = places[_different(U, places, loss)]
    start = np.array([[*[scale] * d, 0.0, 0.0, float(theta[-1])]] * len(places))
    begun, places, fit = _begun(task.at(np.zeros(len(places), dtype=int)), U, start, places, BEGUN_STEPS)
    best = np.argsort(fit.loss)[:KEPT].tolist()
    return [Resonance(tuple(places[i].tolist()), tuple(begun[i].tolist())) for i in best]


def _drawn(centres: Float64[ndarray, "c d"], used: Bool[ndarray, "d"]) -> Float64[ndarray, "C r"]:
    """Return ridges near some points, of all widths and directions; half of them are straight."""
    d, stream = centres.shape[1], Stream(0).at("ridges")
    slopes = stream.at("slopes").normal(SCREENED, d) * (stream.at("sparse").uniform(SCREENED, d) > SPARSE)
    slopes[:d] = np.eye(d)
    slopes *= used
    low, high = np.log(WIDTHS)
    width = np.exp(low + (high - low) * stream.at("widths").uniform(SCREENED, 1))
    slopes /= np.maximum(np.sqrt((slopes**2).sum(1, keepdims=True)), 1e-12) * width
    bent = np.floor(2 * d * stream.at("bent").uniform(SCREENED, 1)) == np.arange(d)
    bends = BEND * stream.at("bends").normal(SCREENED, d) * used * bent / width
    at_centre = np.concatenate([slopes, bends, stream.at("offset").normal(SCREENED, 1)], 1)
    return _moved(at_centre, -centres[np.arange(SCREENED) % len(centres)])


def _varied(
    places: Float64[ndarray, "C r"],
    U: Float64[ndarray, "N d"],
    used: Bool[ndarray, "d"],
    step: float,
    stream: Stream,
) -> Float64[ndarray, "D r"]:
    """Return ridges and variants of each, turned and bent about the told point that is nearest to it."""
    d = len(used)
    size = np.sqrt((places[:, :d] ** 2).sum(1, keepdims=True))
    change = step * stream.normal(VARIANTS, *places.shape)
    change[..., :-1] *= size * np.concatenate([used, used])
    change[..., -1] *= WIDTHS_OFF
    nearest = U[np.abs(across(U, places)).argmin(1)]
    change[..., -1] -= (change[..., :d] * nearest + change[..., d:-1] * nearest**2).sum(-1)
    return np.concatenate([places, (places + change).reshape(-1, places.shape[1])])


def _different(U: Float64[ndarray, "N d"], places: Float64[ndarray, "C r"], loss: Float64[ndarray, "C"]) -> list[int]:
    """Return the best ridges that are not almost the same; either side of a ridge may be the first."""
    kept: list[int] = []
    angles = np.arctan(across(U, places))
    for i in np.argsort(loss).tolist():
        if len(kept) == BEGUN or not math.isfinite(loss[i]):
            break
        if all(min(np.abs(angles[i] - sign * angles[k]).max() for sign in (1, -1)) > DIFFERENT for k in kept):
            kept.append(i)
    return kept


class _Screen:
    """How well ridges of any height explain an output, the rest of which has given hyperparameters."""

    def __init__(self, task: Tasks, theta: Float64[ndarray, "q"], U: Float64[ndarray, "N d"]) -> None:
        told = np.flatnonzero(task.rows[0] > 0)
        root, self._trend, self._rest = likelihood.whitened(task, theta)
        self._U, self._root = U[told], root[:, told]
        self.without = self._loss(float(self._rest @ self._rest))
        """The loss without a ridge."""

    def losses(self, places: Float64[ndarray, "C r"]) -> Float64[ndarray, "C"]:
        """Return the loss of each ridge, up to a constant; infinite where it cannot be computed."""
        parts = [self._some(places[begin : begin + AT_ONCE]) for begin in range(0, len(places), AT_ONCE)]
        return np.concatenate(parts)

    @np.errstate(all="ignore")
    def _some(self, places: Float64[ndarray, "C r"]) -> Float64[ndarray, "C"]:
        """Least squares with the two columns of each ridge."""
        columns = crossed(self._U, places)
        C, n, _ = columns.shape
        H = self._root @ columns.transpose(1, 2, 0).reshape(n, 2 * C)
        H -= self._trend @ (self._trend.T @ H)
        (p, q), (a, c) = (self._rest @ H).reshape(2, C), (H**2).sum(0).reshape(2, C) * (1.0 + 1e-9) + 1e-12
        b = (H[:, :C] * H[:, C:]).sum(0)
        explained = (c * p**2 - 2.0 * b * p * q + a * q**2) / (a * c - b**2)
        loss = self._loss(self._rest @ self._rest - explained)
        return np.where(np.isfinite(loss), loss, np.inf)

    def _loss(self, left: Any) -> Any:
        """Minus the log likelihood where this sum of squares is left."""
        return 0.5 * len(self._U) * np.log(np.maximum(left, 1e-300))


# --- The fit ----------------------------------------------------------------------------------------------------------


def fitted(
    tasks: Tasks,
    U: Float64[ndarray, "N d"],
    theta: Float64[ndarray, "B q"],
    places: Float64[ndarray, "B r"],
    iterations: int,
) -> tuple[Float64[ndarray, "B q"], Float64[ndarray, "B r"], Fit]:
    """Fit resonances and hyperparameters together; return the hyperparameters, the resonances, and the fits."""
    theta, places, _ = _begun(tasks, U, theta, places, iterations)
    return _fitted(tasks, U, theta, places, iterations)


def _begun(
    tasks: Tasks,
    U: Float64[ndarray, "N d"],
    theta: Float64[ndarray, "B q"],
    places: Float64[ndarray, "B r"],
    iterations: int,
) -> tuple[Float64[ndarray, "B q"], Float64[ndarray, "B r"], Fit]:
    """Fit values that are taken for not quite exact; a ridge that is nearly right explains exact ones no better.

    The nuggets that are returned are the given ones.
    """
    is_exact = ~tasks.learns_nugget & (tasks.nugget[:, 1] < math.log(LOOSE_NUGGET))
    loose = np.where(is_exact[:, None], math.log(LOOSE_NUGGET), tasks.nugget)
    start = np.concatenate([theta[:, :-1], np.where(is_exact[:, None], loose[:, :1], theta[:, -1:])], 1)
    start, places, fit = _fitted(replace(tasks, nugget=loose), U, start, places, iterations)
    return np.concatenate([start[:, :-1], theta[:, -1:]], 1), places, fit


def _fitted(
    tasks: Tasks,
    U: Float64[ndarray, "N d"],
    theta: Float64[ndarray, "B q"],
    places: Float64[ndarray, "B r"],
    iterations: int,
) -> tuple[Float64[ndarray, "B q"], Float64[ndarray, "B r"], Fit]:
    """One of these fits.

    Slopes, bends and offset are those at the told point that is nearest to the ridge, where each matters for itself.
    """
    (B, q), d = theta.shape, U.shape[1]
    nearest = U[np.abs(across(U, places)).argmin(1)]
    units = np.append(np.full(2 * d, UNIT), 1.0)
    bent = np.maximum(np.abs(places[:, :d]).max(1, keepdims=True), 1.0) / UNIT  # deviation of the bends a priori
    tasks = beside(tasks, d, crossed(U, places))

    def placed(live: Int[ndarray, "C"], given: Float64[ndarray, "C r"]) -> Float64[ndarray, "C r"]:
        return _moved(given * units, -nearest[live])

    def evaluated(live: Int[ndarray, "C"], given: Float64[ndarray, "C p"]) -> Fit:
        own = placed(live, given[:, q:])
        fit = likelihood.evaluate(beside(tasks.at(live), d, crossed(U, own)), given[:, :q])
        by_width = (fit.by_inputs[..., d:] * crossed_by_widths(across(U, own))).sum(-1)
        away = U - nearest[live][:, None]
        columns = np.concatenate([away, away**2, np.ones_like(away[..., :1])], -1)
        by_place = (by_width[:, None] @ columns)[:, 0] * units
        bends = given[:, q + d : -1] / bent[live]
        by_place[:, d:-1] += bends / bent[live]
        slope = np.concatenate([fit.slope, by_place], 1)
        return replace(fit, loss=fit.loss + 0.5 * (bends**2).sum(1), slope=slope)

    low, high, free = descent.ranges(tasks)
    used = tasks.active[:, :d] > 0
    wide = np.full((B, 2 * d + 1), LARGEST)
    start = np.concatenate([descent.within(theta, low, high, free), _moved(places, nearest) / units], 1)
    low, high = np.concatenate([low, -wide], 1), np.concatenate([high, wide], 1)
    free = np.concatenate([free, used, used, np.ones((B, 1), dtype=bool)], 1)
    found, fit = descent.minimize(evaluated, start, low, high, free, iterations)
    return found[:, :q], placed(np.arange(B), found[:, q:]), fit


def _moved(places: Float64[ndarray, "B r"], by: Float64[ndarray, "B d"]) -> Float64[ndarray, "B r"]:
    """Return ridges with another origin: s(u) of the result is that of the given ones at u + by."""
    d = by.shape[1]
    slopes, bends, offset = places[:, :d], places[:, d:-1], places[:, -1:]
    moved = offset + (slopes * by + bends * by**2).sum(1, keepdims=True)
    return np.concatenate([slopes + 2.0 * bends * by, bends, moved], 1)
