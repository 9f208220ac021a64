"""Read what people tell: values, the point really run, and reasons."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pied.errors import EvaluationError, SettingError, StatementError, TellError, did_you_mean
from pied.problem import Named, Problem

OUTSIDE = 0.05
"""In widths of a variable's range: how far outside of it a point may have been run; a larger distance is a typo."""


def told(problem: Problem, y: Any, label: str = "") -> dict[str, float]:
    """Return told values by output, without missing ones."""
    if y is None:
        return {}
    try:
        outputs = problem.output(y, partial=True)
    except EvaluationError as error:
        raise TellError(f"{label}{error}") from error
    values = zip(problem.outputs, outputs.tolist(), strict=True)
    return {name: value for name, value in values if math.isfinite(value)}


def run_point(problem: Problem, asked: Named, at: Mapping[str, float]) -> dict[str, float]:
    """Return the whole point at which a trial was run, given the variables that were set differently.

    Raises:
        StatementError: When a name is unknown, or a value is far outside of its range.
    """
    for name in at:
        if name not in problem.variables:
            raise StatementError(f"'{name}' is not a variable.{did_you_mean(name, problem.variables)}")
    point = {**dict(asked), **{name: float(value) for name, value in at.items()}}
    with np.errstate(all="ignore"):
        U = problem.to_unit(np.array([list(point.values())]))[0]
    for (name, box), value, u in zip(problem.variables.items(), point.values(), U.tolist(), strict=True):
        if not -OUTSIDE <= u <= 1.0 + OUTSIDE:
            raise StatementError(
                f"'{name}' = {value!r} is far outside of its range from {box.lo!r} to {box.hi!r}: check the number and "
                "its unit; if it was really run there, fail the trial and say so in the reason"
            )
    return point if problem.candidates is None else dict(problem.named_x(problem.point(point)))


def remark(problem: Problem, point: Mapping[str, float]) -> str:
    """Return a remark about the variables that were run outside of their ranges; empty if there are none."""
    parts = [
        f"{name} = {value:.9g} is outside of its range and counts as {box.lo if value < box.lo else box.hi:.9g}"
        for (name, box), value in zip(problem.variables.items(), point.values(), strict=True)
        if not box.lo <= value <= box.hi
    ]
    return "; ".join(parts)


def reason(why: str) -> str:
    """Return the reason of a change; there must be one, because the record is read by others later."""
    if not str(why).strip():
        raise SettingError("say why in a few words, for those who read the record later")
    return str(why).strip()
