"""Try the functions of the white box: explain what cannot work, and find how each function uses the outputs.

A function is first called on a tiny batch (`tried`). This catches wrong names, NumPy on tensors, `if` on a tensor and
wrong shapes before any costly evaluation. Then it is called at many points and outputs of many magnitudes (`found`),
to see whether it uses the outputs at all, is affine in them, or is monotone in a single one.
"""

import logging
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from pied.errors import UnknownName, WhiteBoxError
from pied.problem.named import Function, Named
from pied.rng import Stream

logger = logging.getLogger(__name__)

SAMPLES, POINTS = 2, 3
"""Size of the tiny batch: L and b differ, so that swapped axes are noticed."""
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

LONGEST_REASON = 1000
"""Characters kept of an error message that a function raised."""

Places = tuple[dict[str, int], dict[str, int]]
"""The places of the names of x, and of y."""


@dataclass(frozen=True)
class Structure:
    """How a function of the white box uses the outputs."""

    kind: str
    """"white" (not at all), "affine", "monotone" (exactly one output, monotone but not affine) or "general"."""
    outputs: tuple[int, ...]
    """Places of the outputs that change the function."""


def tried(
    name: str, function: Function, X: Float64[Tensor, "b d"], ranges: Float64[Tensor, "m 2"], index: Places
) -> bool:
    """Call a function on a tiny batch, and explain what cannot work.

    Args:
        name: What the function is called in messages.
        function: The white-box function.
        X: Points of the box, natural units, of which the first three are used.
        ranges: Lower and upper end of each output, infinite where open.
        index: The places of the names of x and of y.

    Returns:
        Whether the result has a derivative; False for a constant.
    """
    X = X[:POINTS].clone().requires_grad_()
    part = 0.25 + 0.5 * Stream(0).at("tiny batch").uniform(SAMPLES, POINTS, ranges.shape[0])
    Y = _inside(ranges, part).requires_grad_()
    value = _called(name, function, X, Y, index)
    _check_result(name, value, (SAMPLES, POINTS))
    alone = _called(name, function, X[1:2], Y[1:2, 1:2], index)
    _check_result(name, alone, (1, 1))
    noise = 1e-9 * float(value.detach().nan_to_num(posinf=0.0, neginf=0.0).abs().max()) + 1e-12 * float(
        Y.detach().abs().max()
    )
    if not torch.allclose(value[..., 1:2][-1:], alone, rtol=1e-6, atol=noise, equal_nan=True):
        raise WhiteBoxError(
            f"'{name}' mixes points or samples, each must be computed for itself: reduce over the last axis of "
            "x.array and y.array only, .sum(-1)."
        )
    return bool(value.requires_grad)


def _inside(ranges: Float64[Tensor, "m 2"], part: Float64[Tensor, "*b m"]) -> Float64[Tensor, "*b m"]:
    """Return the values at a fraction of the way from the lower to the upper end; an open end is taken to be 1 away."""
    lo, hi = ranges.unbind(-1)
    lo = torch.where(lo.isfinite(), lo, torch.where(hi.isfinite(), hi - 1, 0.0))
    hi = torch.where(hi.isfinite(), hi, lo + 1)
    return lo * (1 - part) + hi * part


def called(name: str, function: Function, X: Tensor, Y: Tensor, index: Places) -> Tensor:
    """Call a function and check what it returns, since it may fail at points where it was not tried.

    Args:
        name: What the function is called in messages.
        function: The white-box function.
        X: Points, natural units, `b d`.
        Y: Samples of the outputs there, `L b m`.
        index: The places of the names of x and of y.
    """
    value = _called(name, function, X, Y, index)
    _check_result(name, value, (Y.shape[0], Y.shape[1]))
    return value


def _called(name: str, function: Function, X: Tensor, Y: Tensor, index: Places) -> Any:
    """Call a function on tensors, and explain the error if it raises one."""
    x, y = Named(index[0], X), Named(index[1], Y)
    before = _versions(X, Y)
    try:
        value = function(x, y)
    except UnknownName as error:
        _explain_name(name, error, index)
    except WhiteBoxError:
        raise
    except Exception as error:
        raise WhiteBoxError(f"'{name}' {_remedy(error, X, Y)}") from error
    if _versions(X, Y) != before:
        raise WhiteBoxError(f"'{name}' {_IN_PLACE}")
    return value


def _versions(*tensors: Tensor) -> list[int]:
    """Return how often tensors were changed in place, as counted by torch."""
    return [0 if each.is_inference() else each._version for each in tensors]


def _explain_name(name: str, error: UnknownName, index: Places) -> NoReturn:
    """Raise an error that says where a name belongs, or that it does not exist."""
    asked = error.args[1] if len(error.args) > 1 else None
    for letter, word, names in (("x", "a variable", index[0]), ("y", "an output", index[1])):
        if asked in names:
            raise WhiteBoxError(
                f"'{name}' looks for '{asked}' in the wrong place: it is {word}, write {letter}[{asked!r}]."
            ) from error
    raise WhiteBoxError(f"'{name}' uses a name that does not exist. {error}") from error


_NUMPY = (
    "applies NumPy to tensors: use torch functions (torch.exp instead of np.exp), torch.as_tensor(...) around arrays "
    "of data, or write it as a formula."
)
_SINGLE = "turns tensors into single numbers (float, math.exp): use torch functions (torch.exp instead of math.exp)."
_CHOICE = "decides on tensors (if, and, or, min, max): use torch.where, torch.minimum or torch.maximum."
_DTYPE = "mixes float32 and float64: make constants with dtype=torch.float64, and leave the dtype of x and y as it is."
_IN_PLACE = (
    "changes x or y in place (y.array[...] = ..., +=, .clamp_() and the like): make a new tensor, y.a + 1, torch.where "
    "or .clamp(), or change a copy, y.array.clone()."
)
_REMEDIES = (
    ("in-place operation", _IN_PLACE),
    ("inplace operation", _IN_PLACE),
    ("numpy", _NUMPY),
    ("boolean value of tensor", _CHOICE),
    ("one element tensors can be converted", _SINGLE),
    ("cannot be converted to scalar", _SINGLE),
    ("same dtype", _DTYPE),
    ("expected scalar type", _DTYPE),
    (
        "must match the size of tensor",
        "combines tensors that do not fit: x.name is one number per point, y.name one per sample and point, "
        "and y.array has all outputs on a further last axis.",
    ),
    ("'method'", "uses a name that is also a method of x and y: write it as an item, y['values'] instead of y.values."),
)
"""Part of an error message of torch, NumPy or math, and what to do about it."""


def _remedy(error: Exception, X: Tensor, Y: Tensor) -> str:
    """Return what to do about an error that torch, NumPy or math raised inside a function."""
    text = str(error).lower()
    for sign, remedy in _REMEDIES:
        if sign in text:
            return remedy
    first = (str(error).splitlines() or [""])[0][:LONGEST_REASON]
    points, samples = (f"{len(each)} {word}{'s' * (len(each) != 1)}" for each, word in ((X, "point"), (Y, "sample")))
    return f"raised {type(error).__name__} when tried on tensors (x: {points}, y: {samples}): {first}"


def _check_result(name: str, value: Any, shape: tuple[int, int]) -> None:
    """Refuse a result that is not one real double per point and sample."""
    wanted = f"'{name}' should return one number per point and sample (shape {shape} or {shape[1:]}), got "
    if value is None:
        raise WhiteBoxError(f"{wanted}nothing: is a 'return' missing?")
    if not isinstance(value, Tensor):
        if type(value).__module__ == "numpy":
            raise WhiteBoxError(f"'{name}' {_NUMPY}")
        hint = " (a constant is written 0 * x[...] + constant)" if isinstance(value, int | float) else ""
        raise WhiteBoxError(f"{wanted}{type(value).__name__}{hint}.")
    if tuple(value.shape) not in (shape, shape[1:]):
        hint = ": reduce over the last axis of y.array only, .sum(-1)"
        if shape == (1, 1):
            hint = ": it must work for any number of points, without squeeze or fixed lengths"
        raise WhiteBoxError(f"{wanted}shape {tuple(value.shape)}{hint}.")
    if value.dtype != torch.float64:
        kind = str(value.dtype).removeprefix("torch.")
        raise WhiteBoxError(
            f"'{name}' should return real numbers of dtype float64, got {kind}: make constants with "
            "dtype=torch.float64, and leave the dtype of x and y as it is."
        )


def found(
    name: str,
    function: Function,
    X: Float64[Tensor, "b d"],
    probes: tuple[Float64[Tensor, "L b m"], Float64[Tensor, "L b m"]],
    index: Places,
) -> Structure:
    """Find how a function uses the outputs, by calling it at outputs of many magnitudes inside their ranges.

    Args:
        name: What the function is called in messages.
        function: The white-box function, already tried.
        X: Points of the box, natural units.
        probes: Two sets of outputs at these points, from `probes`.
        index: The places of the names of x and of y.
    """
    points = points_for(max(getattr(function, "width", 1), probes[0].shape[-1]))
    X, (Y, other) = X[:points], (each[:, :points] for each in probes)
    values, slopes = _values(name, function, X, Y, index)
    if values.ndim == 1:
        return Structure("white", ())
    used = _used(name, function, X, (Y, other), (values, slopes), index)
    valid = values.isfinite().any(0)  # at the other points x itself lies outside the function's domain
    if not bool(valid.any()):
        logger.warning("'%s' is not a finite number at any value tried: are ranges= of the outputs missing?", name)
        return Structure("general", tuple(range(Y.shape[-1])))
    if not used:
        return Structure("white", ())
    Y, values, slopes = Y[:, valid], values[:, valid], slopes[:, valid]
    if _is_affine(Y, values, slopes):
        return Structure("affine", used)
    if len(used) == 1 and _is_monotone(Y[..., used[0]], values, slopes[..., used[0]]):
        return Structure("monotone", used)
    return Structure("general", used)


def probes(ranges: Float64[Tensor, "m 2"], turn: int) -> Float64[Tensor, "L b m"]:
    """Draw outputs inside their ranges: over all magnitudes if open, evenly and near both ends if closed.

    Args:
        ranges: Lower and upper end of each output, infinite where open.
        turn: Which set; another number gives independent values.
    """
    stream = Stream(0).at("probes", turn)
    shape = (PROBES, points_for(ranges.shape[0]), ranges.shape[0])
    even, exponent, kind, side = (stream.at(name).uniform(*shape) for name in ("even", "exponent", "kind", "side"))
    lo, hi = ranges.unbind(-1)
    edge = 0.5 * 10 ** (-6 * exponent)
    part = torch.where(kind < 0.5, 0.01 + 0.98 * even, torch.where(side < 0.5, edge, 1 - edge))
    away = torch.where(kind < 0.2, 2 * even + 1e-6, 10 ** (MAGNITUDES[0] + (MAGNITUDES[1] - MAGNITUDES[0]) * exponent))
    free = torch.where(side < 0.5, -away, away)
    half = torch.where(lo.isfinite(), lo + away, torch.where(hi.isfinite(), hi - away, free))
    return torch.where(lo.isfinite() & hi.isfinite(), lo * (1 - part) + hi * part, half)


def points_for(width: int) -> int:
    """Return how many points are tried if each point and sample takes `width` numbers."""
    return min(POINTS_TRIED, max(FEWEST_POINTS, NUMBERS_TRIED // (PROBES * width)))


def _values(
    name: str, function: Function, X: Float64[Tensor, "b d"], Y: Float64[Tensor, "L b m"], index: Places
) -> tuple[Float64[Tensor, "..."], Float64[Tensor, "L b m"]]:
    """Return the values and their slopes by each output."""
    X, Y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    value = called(name, function, X, Y, index)
    slopes = torch.zeros_like(Y)
    if value.requires_grad:
        (slopes,) = torch.autograd.grad(value.sum(), Y, allow_unused=True, materialize_grads=True)
    elif _differ(value, value[..., :1][:1].expand_as(value)):
        raise WhiteBoxError(
            f"'{name}' changes with its inputs but has no derivative: compute with torch functions on the tensors "
            "themselves, without .detach(), .numpy(), .item() or steps such as (a > b)."
        )
    return value.detach(), slopes


def _used(
    name: str,
    function: Function,
    X: Float64[Tensor, "b d"],
    probes: tuple[Float64[Tensor, "L b m"], Float64[Tensor, "L b m"]],
    found: tuple[Float64[Tensor, "L b"], Float64[Tensor, "L b m"]],
    index: Places,
) -> tuple[int, ...]:
    """Return the outputs that change the value somewhere.

    Most are found by their slopes. The others are changed all at once, and bisected if the value changes. If none of
    them matters, this takes a single call.
    """
    (Y, other), (values, slopes) = probes, found
    change = (slopes * (other - Y)).abs_()
    used = (change > LEAST_REAL_CHANGE * values.abs()[..., None]).flatten(0, 1).any(0)
    groups = [(~used).nonzero()[:, 0].tolist()]
    while groups:
        group = groups.pop()
        if not group:
            continue
        moved = Y.clone()
        moved[..., group] = other[..., group]
        with torch.no_grad():
            after = called(name, function, X, moved, index)
        if not _differ(values, after):
            continue
        if len(group) == 1:
            used[group] = True
        else:
            half = len(group) // 2
            groups += [group[:half], group[half:]]
    return tuple(used.nonzero()[:, 0].tolist())


def _differ(a: Float64[Tensor, "*s"], b: Float64[Tensor, "*s"]) -> bool:
    """Tell whether two results differ anywhere by more than the last bits, or are NaN at different places."""
    same = torch.isclose(a, b, rtol=ROUNDING_OF_REPEATS, atol=0.0, equal_nan=True)
    return not bool(same.all())


def _is_affine(Y: Float64[Tensor, "L b m"], values: Float64[Tensor, "L b"], slopes: Float64[Tensor, "L b m"]) -> bool:
    """Tell whether, at every point, all samples have the same slopes and these explain all differences of values."""
    if not bool(torch.isfinite(values).all() & torch.isfinite(slopes).all()):
        return False
    if bool(((slopes - slopes[:1]).abs() > ROUNDING_OF_VALUES * slopes.abs().amax(0)).any()):
        return False
    terms = slopes[0] * Y
    rest = values - terms.sum(-1)  # the part that does not depend on y is the same for all samples
    size = values.abs() + terms.abs().sum(-1)
    smallest = size.argmin(0, keepdim=True)
    allowed = ROUNDING_OF_VALUES * (size + size.gather(0, smallest)) + 1e-15 * size.amax(0)
    return bool(((rest - rest.gather(0, smallest)).abs() <= allowed).all())


def _is_monotone(
    column: Float64[Tensor, "L b"], values: Float64[Tensor, "L b"], slopes: Float64[Tensor, "L b"]
) -> bool:
    """Tell whether, at every point, the values only rise or only fall with the output."""
    if bool(torch.isnan(values).any() | torch.isnan(slopes).any()):
        return False
    order = column.argsort(0)
    ordered = values.gather(0, order)
    steps = torch.where(ordered[1:] == ordered[:-1], 0.0, ordered[1:] - ordered[:-1])
    noise = ROUNDING_OF_VALUES * torch.maximum(ordered[1:].abs(), ordered[:-1].abs()).nan_to_num(posinf=0.0)
    rises, falls = (steps > noise).any(0), (steps < -noise).any(0)
    steep = ROUNDING_OF_VALUES * values.abs().nan_to_num(posinf=0.0) / column.abs()
    rises, falls = rises | (slopes > steep).any(0), falls | (slopes < -steep).any(0)
    mixed: Bool[Tensor, "b"] = rises & falls
    return not bool(mixed.any())
