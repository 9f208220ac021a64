"""Values outside of the stated range of an output: mostly a slip of writing, which is named."""

from collections.abc import Iterator, Mapping

from pied.problem.problem import Problem

ROUNDING = 1e-9
"""Relative to the end of a range: a value this little outside is rounded."""
KELVIN = 273.15
LOST_DIGITS = (10.0, 100.0, 1000.0, 10_000.0)
"""Factors by which a lost decimal point or comma changes a number."""


def doubts(problem: Problem, values: Mapping[str, float]) -> list[str]:
    """Return a sentence for each value outside of its range, with the likely cause."""
    found = []
    for name, value in values.items():
        lo, hi = problem.ranges[problem.outputs.index(name)].tolist()
        if not lo - ROUNDING * abs(lo) <= value <= hi + ROUNDING * abs(hi):
            cause = next(_causes(value, lo, hi), "Is it the right output, and the right unit?")
            found.append(f"'{name}' = {value:.10g} is outside its range from {lo:g} to {hi:g}. {cause}")
    return found


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
