"""Variables, and the box they span: the map between natural units and the unit cube.

`Variable` is also what every kind of variable has: the others, such as `Choice`, say differently how a value is read,
recorded, given to functions and shown. Who handles variables asks them, and does not ask which kind they are.
"""

import builtins
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy import ndarray

from pied.errors import PiedError, StatementError
from pied.problem.values import number
from pied.shapes import Bool, Float64

MOST_LEVELS = 1_000_000
"""Values of a variable with a step: with more of them the step makes no difference."""
LAST_STEP = 1e-9
"""In steps: how far the upper end may lie from the last value and still be that value."""
MOST_SHOWN = 8
"""Levels or labels that a message lists."""
WHOLE_SLACK = 1e-9
"""How far from a whole number one may be written: rounding of another program."""
NARROWEST = 1e-9
"""Smallest width of a variable, relative to its size: rounding would merge the points of a narrower one."""


SHORT = 9
"""Digits of a range: a number that misses one with so many by rounding alone was meant to be that one."""
ROUNDING = 1e-15
"""Relative to the larger end of a range: what the map to the unit cube and back may change, and a sum a little more."""


@dataclass(frozen=True)
class Variable:
    """One decision and its box, lo <= x <= hi.

    Example: `docs/guide-simulator.md`.
    """

    lo: float | int
    """Lower end, natural units."""
    hi: float | int
    """Upper end, natural units."""
    log: bool = field(default=False, kw_only=True)
    """Whether to search on a logarithmic scale, of the size: for quantities that vary over powers of ten, all above or
    all below 0."""
    unit: str = field(default="", kw_only=True)
    """Shown beside values; nothing is converted."""
    step: float | int | None = field(default=None, kw_only=True)
    """Distance of the values that can be set, counted from `lo`; None: every value can be set."""
    round: int | None = field(default=None, kw_only=True)
    """Digits after the point that can be set, another way to write a step: 1 for 0.1, 0 for whole numbers."""
    whole: bool = field(default=False, kw_only=True)
    """Whether it counts something: whole numbers only, which functions get as integers (see `Integer`)."""
    only: tuple[float, ...] | None = field(default=None, kw_only=True)
    """The only values that can be set, such as standard sizes (see `Levels`); None: they are not listed."""
    observed: bool = field(default=False, kw_only=True)
    """Whether it is measured instead of chosen, such as the ambient temperature (see `Observed`)."""
    forget: float | None = field(default=None, kw_only=True)
    """Of time: how long what was measured counts (see `Observed`)."""

    def __post_init__(self) -> None:
        for end in ("lo", "hi"):
            object.__setattr__(self, end, number(getattr(self, end), f"the bound {end}", StatementError))
        if not self.lo < self.hi:
            raise StatementError(f"The lower bound {self.lo:g} must be below the upper bound {self.hi:g}.")
        if not self.hi - self.lo > NARROWEST * max(abs(self.lo), abs(self.hi)):
            raise StatementError(
                f"The range from {self.lo!r} to {self.hi!r} is too narrow to search: make the variable a constant, "
                "or let it be the distance from its lower end."
            )
        if not math.isfinite(self.hi - self.lo):
            raise StatementError(f"The range from {self.lo!r} to {self.hi!r} is too wide for a computer's numbers.")
        if self.log and self.lo <= 0 <= self.hi:
            raise StatementError(f"A logarithmic scale needs bounds on one side of 0, got {self.lo:g} and {self.hi:g}.")
        self._check_step()
        if self.forget is not None:
            object.__setattr__(self, "forget", number(self.forget, "forget", StatementError))
            if not self.observed or self.log or not self.forget > 0:
                raise StatementError(
                    "forget is a time above 0, and says how long what was measured counts: of an observed variable "
                    f"without a logarithmic scale, got {self.forget:g}."
                )

    def _check_step(self) -> None:
        """Refuse a step that leaves nothing to choose, makes no difference, or misses the upper end."""
        words = {"step": self.step, "round": self.round, "whole": self.whole or None, "only": self.only}
        given = [word for word, value in words.items() if value is not None]
        if len(given) > 1:
            raise StatementError(f"{given[0]} and {given[1]} both say which values can be set: leave one of them out.")
        if self.round is not None and (
            isinstance(self.round, bool) or not isinstance(self.round, int) or abs(self.round) > 15
        ):
            raise StatementError(f"round counts digits after the point, a whole number up to 15, got {self.round!r}.")
        if self.whole and not (float(self.lo).is_integer() and float(self.hi).is_integer()):
            raise StatementError(f"An integer has whole numbers as bounds, got {self.lo:g} and {self.hi:g}.")
        if self.only is not None:
            self._check_only(self.only)
        elif self.is_stepped:
            self._check_width()

    def _check_width(self) -> None:
        """Refuse a step that cannot be taken."""
        if self.step is not None:
            object.__setattr__(self, "step", number(self.step, "step", StatementError))
            if not self.step > 0:
                raise StatementError(f"step must be above 0, got {self.step:g}.")
        first, width, count = self._steps()
        if count < 2:
            only = f"between {self.lo:g} and {self.hi:g} there are fewer than two values"
            raise StatementError(f"With a step of {width:g} {only}: take a smaller step, or make it a constant.")
        if count > MOST_LEVELS and self.whole:
            raise StatementError(f"{count:,} whole numbers are too many: make it a plain range, and round what is set.")
        if count > MOST_LEVELS:
            raise StatementError(f"A step of {width:g} makes {count:,} values: leave it out, it makes no difference.")
        last = first + (count - 1) * width
        if self.step is not None and abs(last - self.hi) > LAST_STEP * width:
            digits = max(_decimals(first), _decimals(width))
            raise StatementError(
                f"A step of {width:g} from {self.lo:g} does not reach {self.hi:g}: let the range end at "
                f"{builtins.round(last, digits):g} or {builtins.round(last + width, digits):g}, or take another step."
            )

    def _check_only(self, given: Any) -> None:
        """Read the values that can be set, and refuse what is no list of them."""
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise StatementError(f"only should be a list of numbers, (10, 15, 22), got {given!r}.")
        values = sorted(number(each, "a level", StatementError) for each in given)
        if len(values) < 2:
            raise StatementError("There is nothing to choose among fewer than two levels: make it a constant.")
        if len(set(values)) < len(values):
            twice = next(each for each in values if values.count(each) > 1)
            raise StatementError(f"The level {twice:g} is given twice: leave one out.")
        if (values[0], values[-1]) != (self.lo, self.hi):
            ends = f"from {values[0]:g} to {values[-1]:g}"
            raise StatementError(f"The levels are {ends}, the bounds {self.lo:g} and {self.hi:g}: they must agree.")
        object.__setattr__(self, "only", tuple(values))

    def stated(self) -> dict[str, Any]:
        """Return the fields for storage; a step only where there is one, as in stores of version 0.1."""
        fields = asdict(self)
        for word in ("whole", "observed"):
            if not fields[word]:
                del fields[word]
        return {name: list(each) if name == "only" else each for name, each in fields.items() if each is not None}

    @property
    def span(self) -> str:
        """What can be set, for messages: "[0, 1]", "{10, 15, 22}"."""
        if self.only is not None:
            shown = ", ".join(f"{each:g}" for each in self.only[:MOST_SHOWN])
            return f"{{{shown}{', ...' if len(self.only) > MOST_SHOWN else ''}}}"
        return f"[{self.lo:g}, {self.hi:g}]" + (" (whole)" if self.whole else "")

    @property
    def labels(self) -> tuple[str, ...]:
        """What there is to choose from if it is a label; empty for numbers."""
        return ()

    @property
    def properties(self) -> dict[str, dict[str, float]]:
        """What is known of each label, by property; empty for numbers."""
        return {}

    @property
    def is_listed(self) -> bool:
        """Whether its values are listed one by one."""
        return self.only is not None

    @property
    def is_plain(self) -> bool:
        """Whether functions see it as the number that stands for it in arrays."""
        return not self.whole

    def read(self, value: Any, what: str, error: type[PiedError]) -> float:
        """Read what a user gives, or say what is wrong with it; return its number in arrays."""
        read = number(value, what, error)
        if not self.whole:
            return read
        if abs(read - builtins.round(read)) > WHOLE_SLACK:
            raise error(f"{what[0].upper()}{what[1:]} counts in whole numbers, got {value!r}.")
        return float(builtins.round(read))

    def recorded(self, value: Any) -> Any:
        """Return a value as it is recorded."""
        read = float(value)
        return int(read) if self.whole and read.is_integer() else read

    def code(self, value: Any) -> float:
        """Return the number that stands for a recorded value in arrays."""
        return float(value)

    def at(self, code: float) -> Any:
        """Return what functions see at one point."""
        return builtins.round(float(code)) if self.whole else float(code)

    def over(self, codes: Any) -> Any:
        """Return what functions see at many points."""
        return codes

    @property
    def is_choice(self) -> bool:
        """Whether it is a label instead of a number, see `Choice`."""
        return False

    @property
    def is_stepped(self) -> bool:
        """Whether only some values of the box can be set."""
        return self.step is not None or self.round is not None or self.whole or self.only is not None

    def levels(self) -> list[float]:
        """Return the values that can be set, rising, as a person would write them."""
        if self.only is not None:
            return list(self.only)
        first, width, count = self._steps()
        digits = max(_decimals(first), _decimals(width))
        made = [builtins.round(first + place * width, digits) for place in range(count)]
        return [self.hi if abs(each - self.hi) <= LAST_STEP * width else each for each in made]

    def _steps(self) -> tuple[float, float, int]:
        """Return the first value, the step and the number of values."""
        if self.round is None:
            first, width = float(self.lo), 1.0 if self.whole else float(self.step or 0.0)
        else:
            width = float(f"1e{-self.round}")
            first = float(f"{math.ceil(self.lo / width - LAST_STEP)}e{-self.round}")
        return first, width, math.floor((self.hi - first) / width + LAST_STEP) + 1


def Integer(lo: float | int, hi: float | int, *, log: bool = False, unit: str = "") -> Variable:
    """Return a variable that counts something: the whole numbers from lo to hi.

    Example: `docs/guide-spaces.md`.
    """
    return Variable(lo, hi, log=log, unit=unit, whole=True)


def Levels(*values: Any, log: bool = False, unit: str = "") -> Variable:
    """Return a variable that takes listed values only, such as standard sizes: `Levels(10, 15, 22, 28)`.

    Example: `docs/guide-spaces.md`.
    """
    read = [number(each, "a level", StatementError) for each in values]
    if len(read) < 2:
        raise StatementError("There is nothing to choose among fewer than two levels: make it a constant.")
    return Variable(min(read), max(read), log=log, unit=unit, only=tuple(read))


def Observed(
    lo: float | int, hi: float | int, *, log: bool = False, unit: str = "", forget: float | None = None
) -> Variable:
    """Return a variable that is measured, not chosen: the ambient temperature, the composition of a feed.

    A proposal needs its present value, `study.ask(given={"ambient": 12})`, and what is said holds for it. An observed
    label is `Choice("summer", "winter", observed=True)`.

    Time is one, too, the day or the number of the trial. How fast older measurements lose their meaning is learned;
    with `forget=20` at least so fast that after 20 they say about half.

    Example: `docs/guide-running.md`.
    """
    return Variable(lo, hi, log=log, unit=unit, observed=True, forget=forget)


def _decimals(value: float) -> int:
    """Return the digits after the point that a number is written with; negative ones mean tens, hundreds, ..."""
    return -int(Decimal(repr(value)).normalize().as_tuple().exponent)


@dataclass(frozen=True)
class Box:
    """The box of all variables, and its map to and from the unit cube; some variables are mapped by logarithms."""

    bounds: Float64[ndarray, "d 2"]
    """Lower and upper end of each variable, natural units."""
    is_log: Bool[ndarray, "d"]
    """Which variables are searched on a logarithmic scale."""
    has_log: bool
    """Whether any of them is."""
    labelled: tuple[int, ...] = ()
    """Places of the choices: a point between two labels counts as the nearer one."""

    @classmethod
    def of(cls, variables: Iterable[Variable]) -> "Box":
        """Return the box of some variables."""
        every = list(variables)
        bounds = np.array([[each.lo, each.hi] for each in every], dtype=float)
        labelled = tuple(place for place, each in enumerate(every) if each.is_choice)
        is_log = np.array([each.log for each in every], dtype=bool)
        return cls(bounds, is_log, bool(is_log.any()), labelled)

    def to_unit(self, X: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Map natural units to the unit cube."""
        lo, hi = self.bounds.T
        U = (X - lo) / (hi - lo)
        if not self.has_log:
            return U
        safe_X, safe_lo, safe_hi = (np.where(self.is_log, each, 1.0) for each in (X, lo, hi))
        ratio = np.log(safe_X / safe_lo) / np.where(self.is_log, np.log(safe_hi / safe_lo), 1.0)
        return np.where(self.is_log, ratio, U)

    def from_unit(self, U: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Map the unit cube to natural units: 0 gives exactly the lower end, 1 exactly the upper end.

        Rounding may leave the box by a last bit, which is corrected; points outside of the cube stay outside.
        """
        lo, hi = self.bounds.T
        X = lo * (1 - U) + hi * U
        if self.has_log:
            low, high = (np.where(self.is_log, each, 1.0) for each in (lo, hi))
            X = np.where(self.is_log, np.sign(low) * np.abs(low) ** (1 - U) * np.abs(high) ** U, X)
        for place in self.labelled:
            X[..., place] = np.rint(X[..., place])
        outside = (U < 0.0) | (U > 1.0)
        inside = np.maximum(np.minimum(X, hi), lo)
        return np.where(outside, X, inside) if outside.any() else inside

    def tidy(self, X: Float64[ndarray, "d"]) -> Float64[ndarray, "d"]:
        """Return a point whose numbers miss shorter ones by rounding alone as these: 8.7 for 8.699999999999999."""
        made = []
        for x, (lo, hi), is_log in zip(X.tolist(), self.bounds.tolist(), self.is_log.tolist(), strict=True):
            size = abs(x) if is_log else hi - lo
            short = builtins.round(x, SHORT - 1 - math.floor(math.log10(size))) if 0 < size < math.inf else x
            made.append(short if abs(short - x) <= ROUNDING * max(abs(lo), abs(hi)) else x)
        return np.array(made)

    def unit_slopes(self, X: Float64[ndarray, "*b d"]) -> Float64[ndarray, "*b d"]:
        """Return the derivatives of `from_unit`, at points in natural units."""
        lo, hi = self.bounds.T
        width = np.broadcast_to(hi - lo, X.shape)
        if self.labelled:
            width = width.copy()
            width[..., list(self.labelled)] = 0.0
        if not self.has_log:
            return width
        return np.where(self.is_log, X * np.log(np.where(self.is_log, hi / np.where(self.is_log, lo, 1.0), 1.0)), width)
