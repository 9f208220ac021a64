"""Values outside of the stated range of an output: mostly a slip of writing, which is named."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from pied.measured import ends, is_sided, shown
from pied.problem.problem import Problem

ROUNDING = 1e-9
"""Relative to the size of an output: a value this little outside of the range is rounded."""
KELVIN = 273.15
LOST_DIGITS = (10.0, 100.0, 1000.0, 10_000.0)
"""Factors by which a lost decimal point or comma changes a number."""


def doubts(problem: Problem, values: Mapping[str, float], others: Collection[Mapping[str, float]] = ()) -> list[str]:
    """Return a sentence for each value outside of its range, with the likely cause.

    Args:
        problem: The statement.
        values: What was told, by output.
        others: Other values of these outputs, which show their size.
    """
    found = []
    for name, value in values.items():
        lo, hi = problem.ranges[problem.outputs.index(name)].tolist()
        least, most = ends(value) if is_sided(value) else (value, value)
        missed = max(lo - most, least - hi)
        if missed > 0 and missed > ROUNDING * _size(lo, hi, (each[name] for each in others if name in each)):
            cause = next(_causes(getattr(value, "said", value), lo, hi), "Is it the right output, and the right unit?")
            found.append(f"'{name}' = {shown(value, 10)} is outside its range from {lo:g} to {hi:g}. {cause}")
    return found


def _size(lo: float, hi: float, values: Iterable[float]) -> float:
    """Return the size of an output: the larger end of its range; if that is 0 or open, the largest value and 1."""
    ends = max((abs(end) for end in (lo, hi) if math.isfinite(end)), default=0.0)
    return ends or max([1.0, *(abs(each) for each in values if math.isfinite(each))])


def _causes(value: float, lo: float, hi: float) -> Iterator[str]:
    """Yield what may have gone wrong, the likeliest first."""

    def fits(other: float) -> bool:
        return lo <= other <= hi

    if lo >= 0 and hi <= 1 and 1 < value <= 100 and fits(value / 100):
        yield f"If it is percent, write {value / 100:.10g}."
    if lo >= 0 and hi == 100 and 0 < value <= 1 and fits(100 * value):
        yield f"If it is a fraction, write percent: {100 * value:.10g}."
    if value < 0 and fits(-value):
        yield "Is the sign right?"
    if value == round(value):
        for factor in LOST_DIGITS:
            if abs(value) >= factor / 10 and fits(value / factor):
                yield f"If a decimal point or comma was lost, write {value / factor:.10g}."
    for other in (value - KELVIN, value + KELVIN):
        if fits(other) and hi - lo > 1:
            said = "kelvin instead of degrees Celsius" if other < value else "degrees Celsius instead of kelvin"
            yield f"If it is {said}, write {other:.10g}."
    for factor in (1e-3, 1e3, 1e-2, 1e2, 1e-6, 1e6):
        if value and fits(value * factor):
            yield f"If it is in another unit, convert it: {value * factor:.10g} would fit."
