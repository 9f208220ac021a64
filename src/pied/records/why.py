"""Why a point was proposed: its aim, and what was believed of it at that time."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Why:
    """Why a point was proposed, with the bounds at that time; plain data, stored with the trial."""

    aim: str
    """"initial", "explore", "verify", "probe" (off a box bound on which all points near the best lie, or in a setting
    beside that of the best), "widen" (explore with wider bounds, because the level promises no gain or nothing but
    noise), "improve" (the largest expected improvement), "feasibility" (no point satisfies the bounds), "spread" (any
    other point would be a repetition), "narrow" (the same, of a batch: where the best may be and is least known),
    "sweep" (it sharpens a sweep most), "settle" (it narrows the gap most), "posterior" (it makes that most certain),
    "fill" (the search failed), "repeat"
    (someone asked for these settings once more), "start" (someone gave these settings, to begin with), "compare" (the
    same, to see whether a program gives the same values)."""
    lower: tuple[float, ...] = ()
    """Lower bounds of objective and constraints at the point, in the paper's form."""
    upper: tuple[float, ...] = ()
    """Upper bounds there."""
    optimistic: float | None = None
    """Largest upper bound of the objective under the optimistic constraints, when it was searched."""
    possible: float | None = None
    """The same as far as the belief is to be doubted where little was measured, over many points of the box."""
    assumes_smooth: bool = False
    """Whether the belief takes exact outputs for smoother than the told values show: a small gap says nothing then."""
    margin: float | None = None
    """Joint test of feasibility: max over points of the smallest scaled constraint at z = 3, when it was needed."""
    active: tuple[str, ...] = ()
    """Constraints that were active at the optimum of the search."""
    multipliers: tuple[float, ...] = ()
    """Lagrange multipliers of the search, one per constraint, natural units."""
    rung: str = "plain"
    """Rung of the numerical ladder."""
    seconds: float = 0.0
    """Time the proposal took."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What the solver wants to reuse: for a belief, the chosen models."""
    pending: tuple[int, ...] | None = None
    """Numbers of the trials that were pending when this one was proposed; None in records that lack them."""
    basis: int = 0
    """Number of the last correction of the record that was known: after a later one, the bounds no longer hold."""
    repeats: int | None = None
    """Number of the trial that this one repeats on purpose: the same settings again, to average out the noise, or
    because it does not fit."""
    expected: tuple[tuple[float, ...], ...] = ()
    """Of each output, what was said of the measurement: lower end, median and upper end, its noise included."""
    telling: tuple[float, ...] = ()
    """Of each output, how much a measurement there could show whether the belief is right: 0 if its deviation was all
    noise, or nothing beside that at usual points, because others had been made there; 1 at most."""
    widened: float = 1.0
    """How many times as wide as the belief's own the bounds are, at most."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The settings that were given, by name: it was proposed among points with these values; a list is a range."""

    def anywhere(self) -> "Why":
        """Return what of it depends on no coordinates of a cube: a slice may have others than the whole space."""
        return replace(
            self, lower=(), upper=(), optimistic=None, possible=None, margin=None, active=(), multipliers=(), memory={}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Why":
        """Read the fields from plain data; ignore fields of other versions."""
        known = {name: value for name, value in data.items() if name in cls.__dataclass_fields__}
        read: dict[str, Any] = {"aim": "added", **known}
        for name in ("lower", "upper", "multipliers", "telling"):
            read[name] = tuple(_number(each, name) for each in read.get(name, ()))
        read["expected"] = tuple(tuple(_number(each, "expected") for each in ends) for ends in read.get("expected", ()))
        read["widened"] = _number(read.get("widened", 1.0), "widened")
        read["active"] = tuple(str(each) for each in read.get("active", ()))
        if read.get("pending") is not None:
            read["pending"] = tuple(int(_number(each, "pending")) for each in read["pending"])
        read["basis"] = int(_number(read.get("basis", 0), "basis"))
        if read.get("repeats") is not None:
            read["repeats"] = int(_number(read["repeats"], "repeats"))
        read["assumes_smooth"] = read.get("assumes_smooth", read.get("possible") is not None) is True
        for name in ("optimistic", "possible", "margin"):
            read[name] = None if read.get(name) is None else _number(read[name], name)
        for name, kind in (("aim", str), ("rung", str), ("memory", Mapping), ("given", Mapping)):
            if name in read and not isinstance(read[name], kind):
                raise TypeError(f"'{name}' of why it was proposed is a {type(read[name]).__name__}")
        read["seconds"] = _number(read.get("seconds", 0.0), "seconds")
        return cls(**read)


def _number(value: Any, name: str) -> float:
    """Read a stored number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"'{name}' of why it was proposed has a {type(value).__name__}")
    return float(value)
