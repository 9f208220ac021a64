"""A told number with its error, or a limit beyond which it lies.

`0.52 ± 0.01` is a value whose standard deviation is 0.01. `0.52 ± 0.01 (n=3)` is the mean of three measurements that
scatter by 0.01 each, so that the standard deviation of the value is 0.01 / sqrt(3). `<0.05` and `>100` are values that
are known to lie below or above a limit: as numbers they are NaN, so that nothing computes with the limit by mistake.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

POOLED = 2.0
"""With how many degrees of freedom the scatter of the other repetitions counts: that of three is known to half its
size, and by chance it may be next to nothing."""
_PARTS = re.compile(r"(?P<value>.*?)\s*(?:±|\+/?[-−])\s*(?P<error>[^()]*?)\s*(?:\(\s*n\s*=\s*(?P<count>\d+)\s*\))?\s*")
_SIDED = re.compile(r"(?:below|under|less than|<=?|≤)(?P<below>.*)|(?:above|over|more than|>=?|≥)(?P<above>.*)", re.I)
NOT_DETECTED = frozenset(
    {"n.d.", "n.d", "nd", "n.n.", "n.n", "not detected", "bdl", "<lod", "< lod", "<dl", "below lod"}
)
"""What is written, in any case of letters, for a value below the stated limit of detection."""
SIGNS = {-1: "<", 1: ">"}


class Measured(float):
    """A number that is known with an error, which counts as that number; or beyond a limit, which counts as NaN."""

    said: float
    """The number, or the limit beyond which it lies."""
    deviation: float
    """Standard deviation of one measurement; NaN where only a limit is known."""
    count: int
    """How many measurements the number is the mean of."""
    side: int
    """-1 if it is known to lie below the limit, 1 above, 0 if the number itself is known."""

    def __new__(cls, said: float, deviation: float = math.nan, count: int = 1, side: int = 0) -> "Measured":
        """Make one; `checked` refuses what is impossible."""
        made = super().__new__(cls, math.nan if side else said)
        made.said, made.deviation, made.count, made.side = float(said), float(deviation), int(count), int(side)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Measured, (self.said, self.deviation, self.count, self.side)

    def __repr__(self) -> str:
        if self.side:
            return f"'{self}'"
        return f"({self.said!r}, {self.deviation!r}{f', {self.count}' * (self.count > 1)})"

    def __str__(self) -> str:
        return f"{SIGNS[self.side]}{self.said!r}" if self.side else f"{self.said!r} ± {self.deviation!r}{self._counted}"

    @property
    def _counted(self) -> str:
        return f" (n={self.count})" if self.count > 1 else ""

    @property
    def error(self) -> float:
        """Standard deviation of the number itself."""
        return self.deviation / math.sqrt(self.count)

    def shown(self, digits: int) -> str:
        """Return it with so many digits of the number."""
        if self.side:
            return f"{SIGNS[self.side]}{self.said:.{digits}g}"
        return f"{self.said:.{digits}g} ± {self.deviation:.{min(digits, 4)}g}{self._counted}"


def checked(value: float, deviation: Any, count: Any = 1) -> Measured:
    """Return a number with its error, or raise a `ValueError` that says what is wrong with that."""
    for each in (deviation, count):
        if isinstance(each, bool | str | bytes) or not hasattr(each, "__float__"):
            raise ValueError(f"the error after ± and n are numbers, got {each!r}")
    deviation, count = float(deviation), float(count)
    if not (math.isfinite(count) and count >= 1 and count.is_integer()):
        raise ValueError(f"n counts the measurements whose mean was told, 1 or more, got {count:g}")
    if not (math.isfinite(deviation) and deviation >= 0):
        raise ValueError(f"the error after ± is a standard deviation, a number above 0, got {deviation:g}")
    if deviation == 0 and count == 1:
        raise ValueError("an error of 0 would make it exact: leave the error out where it is not known")
    return Measured(value, deviation, int(count))


def parts(text: str) -> tuple[str, str, int] | None:
    """Split "0.52 ± 0.01 (n=3)", also written +- or +/-, into the texts of number and error, and n; None without ±."""
    found = _PARTS.fullmatch(text.strip())
    return None if found is None else (found["value"], found["error"], int(found["count"] or 1))


def sided(text: str) -> tuple[str, int] | None:
    """Split "<0.05" or ">100" into the text of the limit and the side of the value; None of other texts."""
    found = _SIDED.fullmatch(text.strip())
    if found is None:
        return None
    return (found["above"].strip(), 1) if found["below"] is None else (found["below"].strip(), -1)


def not_detected(text: str, lod: float | None) -> Measured | None:
    """Read "n.d." as a value below the stated limit of detection; None of other texts."""
    if " ".join(text.split()).casefold() not in NOT_DETECTED:
        return None
    if lod is None:
        raise ValueError(f"'{text.strip()}' needs a limit: state lod = 0.02 of the output, or write '<0.02'")
    return Measured(lod, side=-1)


def is_sided(value: Any) -> bool:
    """Whether a value is known by a limit alone."""
    return isinstance(value, Measured) and value.side != 0


def is_known(value: float) -> bool:
    """Whether something was told: a number, or a limit beyond which it lies."""
    return math.isfinite(value) or is_sided(value)


def kept(value: Any) -> float:
    """Return a number as a float, with its error if it has one."""
    return value if isinstance(value, Measured) else float(value)


def shown(value: float, digits: int) -> str:
    """Return a number with so many digits, and its error if it has one."""
    return value.shown(digits) if isinstance(value, Measured) else f"{value:.{digits}g}"


def identity(value: float) -> tuple[float, ...]:
    """Return what two numbers must have in common to be told alike."""
    if is_sided(value):
        return (value.said, 0.0, 1, value.side)  # type: ignore[attr-defined]
    return (float(value), value.deviation, value.count) if isinstance(value, Measured) else (float(value),)


def says_no_more(value: float, known: float | None) -> bool:
    """Tell whether a number is the known one, told without an error or with the same."""
    if known is None or not isinstance(value, Measured):
        return value == known and not is_sided(known)
    return identity(value) == identity(known)


def of_repetitions(values: Sequence[float]) -> float:
    """Return the mean of repeated measurements with their scatter; a single one is what it is."""
    mean, count = math.fsum(each / len(values) for each in values), len(values)
    if count == 1:
        return mean
    largest = max(abs(each - mean) for each in values) or 1.0  # squares may overflow
    return Measured(
        mean, largest * math.sqrt(sum(((each - mean) / largest) ** 2 for each in values) / (count - 1)), count
    )


def errors(values: Sequence[float]) -> list[float]:
    """Return the standard deviations of the told values of one output, NaN where none is stated.

    A scatter of few repetitions is itself uncertain. It is drawn toward that of the other repetitions of the output, by
    the weights of their degrees of freedom, on the scale of logarithms, so that small values may have small errors.
    """
    repeated = [each for each in values if isinstance(each, Measured) and each.count > 1 and each.deviation > 0]
    freedom = sum(each.count - 1 for each in repeated)
    usual = sum((each.count - 1) * math.log(each.deviation) for each in repeated) / freedom if freedom else math.nan
    found = []
    for each in values:
        if not isinstance(each, Measured) or each.side:
            found.append(math.nan)
        elif each.count == 1 or (len(repeated) < 2 and each.deviation > 0):
            found.append(each.error)
        else:
            own = each.count - 1 if each.deviation > 0 else 0  # repetitions that a display shows as equal
            log = (own * math.log(each.deviation or 1.0) + POOLED * usual) / (own + POOLED)
            found.append(math.exp(log) / math.sqrt(each.count))
    return found


def ends(value: float) -> tuple[float, float]:
    """Return between which ends a value is known to lie by a limit; infinite ones where it has none."""
    if not isinstance(value, Measured) or not value.side:
        return -math.inf, math.inf
    return (value.said, math.inf) if value.side > 0 else (-math.inf, value.said)
