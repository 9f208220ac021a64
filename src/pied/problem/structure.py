"""How each function of the white box uses the outputs: not at all, affinely, monotonically in one of them, or anyhow.

Nobody needs to say so: the function is computed at outputs of many magnitudes. This works for every door alike, also
for those whose inside cannot be seen.
"""

import logging
from dataclasses import dataclass, field, replace

import numpy as np
from numpy import ndarray

from pied.problem.called import STEP, Called
from pied.problem.doors import Door
from pied.problem.program import Program
from pied.problem.sums import Terms, terms_of
from pied.rng import Stream
from pied.shapes import Bool, Float64

logger = logging.getLogger(__name__)

ROUNDING_OF_VALUES = 1e-9
"""Relative difference that counts as rounding: far above float64's after a few operations, far below true curvature."""
ROUNDING_OF_REPEATS = 1e-13
"""Relative difference of two calls that counts as rounding, if the function does the same operations in both."""
MAGNITUDES = (-6.0, 9.0)
"""Powers of ten over which an open output is tried: they cover physical quantities in any sensible unit."""
PROBES = 64
"""Values tried for each output (L of a probe): 2048 with all POINTS_TRIED points."""
POINTS_TRIED = 32
"""Points of the box at which the structure is found."""
NUMBERS_TRIED = PROBES * POINTS_TRIED * 1000
"""Numbers in one array of a probe (16 MB): with more than 1,000 outputs or longer vectors, fewer points are tried."""
FEWEST_POINTS = 4
"""Points that are always tried."""
LEAST_REAL_CHANGE = 1e-9
"""Change of a function, relative to its value and estimated from its slope, that cannot be rounding."""
SECONDS_TRIED = 0.1
"""Time that one batch of calls of a slow function may take."""
PROBES_OF_CALLS, POINTS_OF_CALLS = (8, 24), 16
"""Values tried for each output, and points, of a function that is called."""
HIDDEN = (
    "'%s' takes float() of an output, or calls a function of math: so it is called point by point, and what it does "
    "with the outputs, such as a sum of squares, is not seen. Leave float() out and use NumPy's functions"
)


@dataclass(frozen=True)
class Structure:
    """How a function of the white box uses the outputs."""

    kind: str
    """"white" (not at all), "affine", "monotone" (exactly one output, monotone but not affine) or "general"."""
    outputs: tuple[int, ...]
    """Places of the outputs that change the function."""
    terms: Terms | None = field(default=None, compare=False, repr=False)
    """Of a general function that is a sum of functions of one output each; None: it is not, as far as is known."""


def found(
    name: str,
    door: Door,
    X: Float64[ndarray, "b d"],
    probes: tuple[Float64[ndarray, "L b m"], Float64[ndarray, "L b m"]],
) -> tuple[Door, Structure]:
    """Find how a function uses the outputs; return its door, which then knows its inputs, and the structure.

    Args:
        name: What the function is called in messages.
        door: How it is computed.
        X: Points of the box, natural units.
        probes: Two sets of outputs at these points, from `probes`.
    """
    with np.errstate(all="ignore"):
        if isinstance(door, Called):
            return _found_by_calls(name, door, X, probes)
        width = door.width if isinstance(door, Program) else 1
        points = points_for(max(width, probes[0].shape[-1]))
        X, (Y, other) = X[:points], (each[:, :points] for each in probes)
        values, back = door.traced(X, Y)
        if values.ndim == 1:
            return door, Structure("white", ())
        _, slopes = back(np.ones(values.shape))
        change = np.abs(slopes * (other - Y))
        clearly = (change > LEAST_REAL_CHANGE * np.abs(values)[..., None]).any((0, 1))
        used = _used(door, X, (Y, other), values, clearly)
        structure = _kind(name, Y, values, slopes, used)
        if structure.kind == "general" and isinstance(door, Program):
            structure = replace(structure, terms=terms_of(door, X, Y, other))
        return door, structure


def _found_by_calls(
    name: str, door: Called, X: Float64[ndarray, "b d"], probes: tuple[ndarray, ndarray]
) -> tuple[Door, Structure]:
    """Find the structure of a function that is called: from values alone, and fewer of them if it is slow."""
    calls = int(SECONDS_TRIED / max(door.seconds, 1e-9))
    L = int(np.clip(calls // FEWEST_POINTS, *PROBES_OF_CALLS))
    b = int(np.clip(calls // L, FEWEST_POINTS, POINTS_OF_CALLS))
    X, (Y, other) = X[:b], (each[:L, :b] for each in probes)
    every_y = tuple(range(Y.shape[-1]))
    whole = replace(door, uses_x=tuple(range(X.shape[1])), uses_y=every_y)
    values = whole.values(X, Y)
    nothing = np.zeros(Y.shape[-1], dtype=bool)
    uses_y = _used(whole, X, (Y, other), values, nothing)
    elsewhere = np.roll(X, 1, 0)
    uses_x = tuple(
        place
        for place in range(X.shape[1])
        if _differ(values, whole.values(np.where(np.arange(X.shape[1]) == place, elsewhere, X), Y))
    )
    known = replace(door, uses_x=uses_x, uses_y=uses_y)
    if not uses_y:
        return known, Structure("white", ())
    if door.takes_number:
        logger.warning(HIDDEN, name)
    middle = whole.values(X, 0.5 * (Y + other))
    ends = values, whole.values(X, other)
    size = np.abs(ends[0]) + np.abs(ends[1]) + 2 * np.abs(middle)
    bend = np.abs(ends[0] + ends[1] - 2 * middle)
    if np.isfinite(size).all() and bool((bend <= ROUNDING_OF_VALUES * size).all()):
        return known, Structure("affine", uses_y)
    slopes = np.zeros(Y.shape)
    if len(uses_y) == 1:  # it may be monotone: its direction is looked at closely
        near = np.clip(Y + STEP * np.abs(Y), *door.ranges.T)
        near = np.where(near == Y, Y - STEP * np.abs(Y), near)
        slopes[..., uses_y] = ((whole.values(X, near) - values) / (near - Y)[..., uses_y[0]])[..., None]
    return known, _kind(name, Y, values, slopes, uses_y, may_be_affine=False)


def _kind(
    name: str,
    Y: Float64[ndarray, "L b m"],
    values: Float64[ndarray, "L b"],
    slopes: Float64[ndarray, "L b m"],
    used: tuple[int, ...],
    may_be_affine: bool = True,
) -> Structure:
    """Return the structure of a function from its values, slopes and the outputs that it uses."""
    valid = np.isfinite(values).any(0)  # at the other points x itself lies outside the function's domain
    if not bool(valid.any()):
        logger.warning("'%s' is not a finite number at any value tried: are ranges= of the outputs missing?", name)
        return Structure("general", tuple(range(Y.shape[-1])))
    if not used:
        return Structure("white", ())
    Y, values, slopes = Y[:, valid], values[:, valid], slopes[:, valid]
    if may_be_affine and _is_affine(Y, values, slopes):
        return Structure("affine", used)
    if len(used) == 1 and _is_monotone(Y[..., used[0]], values, slopes[..., used[0]]):
        return Structure("monotone", used)
    return Structure("general", used)


def probes(ranges: Float64[ndarray, "m 2"], turn: int) -> Float64[ndarray, "L b m"]:
    """Draw outputs inside their ranges: over all magnitudes if open, evenly and near both ends if closed.

    Args:
        ranges: Lower and upper end of each output, infinite where open.
        turn: Which set; another number gives independent values.
    """
    stream = Stream(0).at("probes", turn)
    shape = (PROBES, points_for(ranges.shape[0]), ranges.shape[0])
    even, exponent, kind, side = (stream.at(name).uniform(*shape) for name in ("even", "exponent", "kind", "side"))
    lo, hi = ranges.T
    edge = 0.5 * 10 ** (-6 * exponent)
    part = np.where(kind < 0.5, 0.01 + 0.98 * even, np.where(side < 0.5, edge, 1 - edge))
    away = np.where(kind < 0.2, 2 * even + 1e-6, 10 ** (MAGNITUDES[0] + (MAGNITUDES[1] - MAGNITUDES[0]) * exponent))
    free = np.where(side < 0.5, -away, away)
    half = np.where(np.isfinite(lo), lo + away, np.where(np.isfinite(hi), hi - away, free))
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(lo) & np.isfinite(hi), lo * (1 - part) + hi * part, half)


def points_for(width: int) -> int:
    """Return how many points are tried if each point and sample takes `width` numbers."""
    return min(POINTS_TRIED, max(FEWEST_POINTS, NUMBERS_TRIED // (PROBES * width)))


def _used(
    door: Door,
    X: Float64[ndarray, "b d"],
    probes: tuple[Float64[ndarray, "L b m"], Float64[ndarray, "L b m"]],
    values: Float64[ndarray, "L b"],
    clearly: Bool[ndarray, "m"],
) -> tuple[int, ...]:
    """Return the outputs that change the value somewhere.

    Those that clearly do (by their slopes) are known. The others are changed all at once, and bisected if the value
    changes. If none of them matters, this takes a single call.
    """
    Y, other = probes
    used = clearly.copy()
    groups = [np.flatnonzero(~used).tolist()]
    while groups:
        group = groups.pop()
        if not group:
            continue
        moved = Y.copy()
        moved[..., group] = other[..., group]
        if not _differ(values, door.values(X, moved)):
            continue
        if len(group) == 1:
            used[group] = True
        else:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
    return tuple(np.flatnonzero(used).tolist())


def _differ(a: Float64[ndarray, "*s"], b: Float64[ndarray, "*s"]) -> bool:
    """Tell whether two results differ anywhere by more than the last bits, or are NaN at different places."""
    return not np.allclose(a, b, rtol=ROUNDING_OF_REPEATS, atol=0.0, equal_nan=True)


def _is_affine(
    Y: Float64[ndarray, "L b m"], values: Float64[ndarray, "L b"], slopes: Float64[ndarray, "L b m"]
) -> bool:
    """Tell whether, at every point, all samples have the same slopes and these explain all differences of values."""
    if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
        return False
    if bool((np.abs(slopes - slopes[:1]) > ROUNDING_OF_VALUES * np.abs(slopes).max(0)).any()):
        return False
    terms = slopes[0] * Y
    rest = values - terms.sum(-1)  # the part that does not depend on y is the same for all samples
    size = np.abs(values) + np.abs(terms).sum(-1)
    smallest = size.argmin(0)[None]
    least = np.take_along_axis(size, smallest, 0)
    allowed = ROUNDING_OF_VALUES * (size + least) + 1e-15 * size.max(0)
    return bool((np.abs(rest - np.take_along_axis(rest, smallest, 0)) <= allowed).all())


def _is_monotone(
    column: Float64[ndarray, "L b"], values: Float64[ndarray, "L b"], slopes: Float64[ndarray, "L b"]
) -> bool:
    """Tell whether, at every point, the values only rise or only fall with the output."""
    if bool((np.isnan(values) | np.isnan(slopes)).any()):
        return False
    ordered = np.take_along_axis(values, column.argsort(0, kind="stable"), 0)
    steps = np.where(ordered[1:] == ordered[:-1], 0.0, ordered[1:] - ordered[:-1])
    noise = ROUNDING_OF_VALUES * _finite(np.maximum(np.abs(ordered[1:]), np.abs(ordered[:-1])))
    steep = ROUNDING_OF_VALUES * _finite(np.abs(values)) / np.abs(column)
    rises = (steps > noise).any(0) | (slopes > steep).any(0)
    falls = (steps < -noise).any(0) | (slopes < -steep).any(0)
    return not bool((rises & falls).any())


def _finite(sizes: Float64[ndarray, "*b"]) -> Float64[ndarray, "*b"]:
    return np.where(np.isposinf(sizes), 0.0, sizes)
