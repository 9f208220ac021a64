"""Sums of terms, each a function of one output: least squares, robust losses, penalties of single outputs.

The terms are read off a program: from its value down through sums, differences, products with factors that do not use
the outputs, and totals of vectors. Which output each term follows is found by trying it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from pied.problem.program import Back, Program, Step, Writer, ending
from pied.shapes import Bool, Float64, Int

MOST_PARTS = 2_000
"""Parts of a sum that are written one by one; of a longer one, joining them would take longer than samples do."""
SAMPLES_TRIED, POINTS_TRIED = 16, 8
"""Outputs, and points, at which it is tried which output each term follows."""
ROUNDING_OF_SUMS = 1e-9
"""Difference of the sum of the terms from the function, relative to the sum of their sizes, that counts as rounding."""


Factor = tuple[int | float | ndarray, bool]
"""A step or a number by which a part is multiplied or, if true, divided."""


@dataclass(frozen=True, eq=False)
class Terms:
    """The terms of a function that is a sum of functions of one output each."""

    program: Program
    """Its value has a further axis: the terms, in the order of `outputs`."""
    outputs: tuple[int, ...]
    """The output that each term follows, all different."""
    are_quadratic: bool = False
    """Whether each term is at most quadratic in its output."""

    def traced(
        self, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"]
    ) -> tuple[Float64[ndarray, "L b j"], Back]:
        """Return the terms, and the way back from weights of theirs to slopes by x and y."""
        values = self.program.forward(X, Y)
        return values[-1], lambda weight: self.program.back(values, weight, X, Y)


def terms_of(
    program: Program, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], other: Float64[ndarray, "L b m"]
) -> Terms | None:
    """Return the terms of a program; None if it is not a sum of terms that follow one output each, or not finite.

    Args:
        program: The function.
        X: Points of the box, natural units.
        Y: Outputs at these points.
        other: Other outputs at these points.
    """
    parts = list(_parts(program.steps, _using_outputs(program.steps), len(program.steps) - 1, ()))
    if len(parts) > MOST_PARTS or (len(parts) == 1 and not parts[0].is_vector):
        return None
    split = _written(program, parts, X[:1], Y[:1, :1])
    terms = split.forward(X, Y)[-1]
    if terms.shape[:2] != Y.shape[:2] or not np.isfinite(terms).all():
        return None
    error = np.abs(terms.sum(-1) - program.values(X, Y))
    if (error > ROUNDING_OF_SUMS * np.abs(terms).sum(-1)).any():
        return None
    few = (slice(SAMPLES_TRIED), slice(POINTS_TRIED))
    follows = _followed(split, X[:POINTS_TRIED], Y[few], other[few])
    return None if follows is None else _gathered(split, follows, _are_quadratic(split, X, Y, other))


def _are_quadratic(
    split: Program, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], other: Float64[ndarray, "L b m"]
) -> bool:
    """Whether the third differences of all terms between two sets of outputs are rounding."""
    total = size = 0.0
    for share, weight in zip((0.0, 1 / 3, 2 / 3, 1.0), (-1.0, 3.0, -3.0, 1.0), strict=True):
        part = weight * split.forward(X, Y + share * (other - Y))[-1]
        total, size = total + part, size + np.abs(part)
    return bool((np.abs(total) <= ROUNDING_OF_SUMS * size).all())


def _gathered(split: Program, follows: Int[ndarray, "t"], are_quadratic: bool) -> Terms:
    """Add up the terms of each output; those that follow none go with the first one."""
    outputs = np.unique(follows[follows >= 0])
    own = np.where(follows < 0, outputs[0], follows) == outputs[:, None]
    steps = split.steps
    if not np.array_equal(own, np.eye(len(outputs))):
        steps = (*steps, Step("dot", (len(steps) - 1,), own.astype(float)))
    return Terms(Program(steps, split.width), tuple(outputs.tolist()), are_quadratic)


def _followed(
    split: Program, X: Float64[ndarray, "b v"], Y: Float64[ndarray, "L b m"], other: Float64[ndarray, "L b m"]
) -> Int[ndarray, "t"] | None:
    """Return which output each term follows, -1 for none; None if some term follows several, or all follow none.

    Half of the outputs are changed at a time: those that have a one at one place of their binary number, then those
    that have a zero. A term of a single output changes with one of the two halves, which tells that digit.
    """

    def at(is_changed: Bool[ndarray, "m"]) -> Float64[ndarray, "L b t"]:
        return split.forward(X, np.where(is_changed, other, Y))[-1]

    numbers = np.arange(Y.shape[-1])
    before = at(numbers < 0)
    found, follows = np.zeros(before.shape[-1], dtype=int), np.zeros(before.shape[-1], dtype=bool)
    for place in range(max(1, len(numbers) - 1).bit_length()):
        has_one = (numbers >> place) % 2 == 1
        by_ones, by_zeros = ((at(each) != before).any((0, 1)) for each in (has_one, ~has_one))
        if (by_ones & by_zeros).any():
            return None
        found += by_ones * 2**place
        follows |= by_ones | by_zeros
    return np.where(follows, found, -1) if follows.any() else None


@dataclass(frozen=True)
class _Part:
    """A step whose value, or the total of whose elements, is a part of a sum."""

    place: int
    is_vector: bool
    factors: tuple[Factor, ...]
    """They use no output."""


def _parts(steps: Sequence[Step], uses_y: Sequence[bool], place: int, factors: tuple[Factor, ...]) -> Iterator[_Part]:
    """Find the parts of a sum."""
    step = steps[place]
    used = [i for i, part in enumerate(step.parts) if uses_y[part]]
    if step.kind == "sum":
        for i, part in enumerate(step.parts):
            yield from _parts(steps, uses_y, part, (*factors, (-1.0, False)) if i and step.value[i] else factors)
    elif step.kind == "minus":
        yield from _parts(steps, uses_y, step.parts[0], (*factors, (-1.0, False)))
    elif step.kind == "product" and len(used) == 1 and not (used[0] and step.value[used[0]]):
        others = tuple((part, bool(i and step.value[i])) for i, part in enumerate(step.parts) if i != used[0])
        yield from _parts(steps, uses_y, step.parts[used[0]], (*factors, *others))
    elif step.kind == "total" and used and step.value == -1:
        yield _Part(step.parts[0], True, factors)
    elif step.kind == "dot" and used and step.value.ndim == 1:
        yield _Part(step.parts[0], True, (*factors, (step.value, False)))
    else:
        yield _Part(place, False, factors)


def _using_outputs(steps: Sequence[Step]) -> list[bool]:
    """Tell which steps use outputs."""
    uses: list[bool] = []
    for step in steps:
        uses.append(step.kind == "y" or any(uses[part] for part in step.parts))
    return uses


def _written(
    program: Program, parts: Sequence[_Part], X: Float64[ndarray, "1 v"], Y: Float64[ndarray, "1 1 m"]
) -> Program:
    """Return the program whose value is the vector of all parts; it is run once, to know their lengths."""
    writer = Writer()
    moved: list[int] = []
    for step in program.steps:
        moved.append(writer.write(step.kind, tuple(moved[part] for part in step.parts), step.value))
    places = []
    for part in parts:
        place = moved[part.place]
        for factor, is_inverse in part.factors:
            by = writer.write("constant", (), factor) if not isinstance(factor, int) else moved[factor]
            if part.is_vector and writer.steps[by].kind != "constant":
                by = writer.write("lift", (by,), (0, 1))
            place = writer.write("product", (place, by), (False, is_inverse))
        places.append(place if part.is_vector else writer.write("lift", (place,), (0, 1)))
    if len(places) == 1:
        return Program(ending(writer.steps, places[0]), program.width)
    sizes = [Program(ending(writer.steps, place)).forward(X, Y)[-1].shape[-1] for place in places]
    writer.write("join", tuple(places), tuple(sizes))
    return Program(ending(writer.steps, len(writer.steps) - 1), max(program.width, sum(sizes)))
