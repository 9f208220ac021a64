"""Read the numbers that users and black boxes hand over, or say what is wrong with them."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pied.errors import EvaluationError, PiedError, WrongOutputs, closest, did_you_mean
from pied.measured import Measured, checked, is_known, not_detected, parts, sided
from pied.problem.tensors import dense, is_tensor

MOST_LISTED = 6
"""Names that a message lists before it is cut off."""

Reader = Callable[[Any, str, type[PiedError]], float]
"""Reads one value: what was given, what it is called in messages, and the error to raise."""


def number(value: Any, what: str, error: type[PiedError]) -> float:
    """Read one finite real number, or say what was given instead."""
    if is_tensor(value):
        value = _array(value, what, error)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    kind = type(value).__name__
    if value is None or isinstance(value, str | bytes | bool | np.bool_ | complex | np.complexfloating):
        raise error(f"{what[0].upper()}{what[1:]} should be a number, got {kind} {value!r}.")
    try:
        made = float(value)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{what[0].upper()}{what[1:]} should be a number, got {kind}.") from None
    if not math.isfinite(made):
        raise error(f"{what[0].upper()}{what[1:]} should be a finite number, got {made}.")
    return made


@dataclass(frozen=True)
class Measuring:
    """Reads told values of an output."""

    lod: float | None = None
    """Its limit of detection, for which "n.d." stands."""

    def __call__(self, value: Any, what: str, error: type[PiedError]) -> float:
        """Read a number, also with its error or as a limit beyond which it lies ("<0.05", ">100", "n.d.")."""
        if isinstance(value, str):
            try:
                if (found := _limited(value, self.lod)) is not None:
                    return found
            except ValueError as reason:
                raise error(f"{_titled(what)}: {reason}.") from None
        return measured(value, what, error)


def _limited(text: str, lod: float | None) -> Measured | None:
    """Read a text that says beyond which limit a value lies; None of other texts."""
    if (none := not_detected(text, lod)) is not None:
        return none
    if (found := sided(text)) is None:
        return None
    try:
        limit = float(found[0])
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise ValueError(f"write a limit like '<0.05' or '>100', got '{text}'")
    return Measured(limit, side=found[1])


def measured(value: Any, what: str, error: type[PiedError]) -> float:
    """Read a told value: a number, or one with its error, as (0.52, 0.01), (0.52, 0.01, 3) or "0.52 ± 0.01 (n=3)"."""
    if isinstance(value, Measured):
        return value
    if isinstance(value, str) and (found := parts(value)) is not None:
        try:
            value = (float(found[0]), float(found[1]), found[2])
        except ValueError:
            raise error(f"{_titled(what)} should be written like '0.52 ± 0.01 (n=3)', got {value!r}.") from None
    if not (isinstance(value, tuple) and len(value) in (2, 3)):
        return number(value, what, error)
    try:
        return checked(number(value[0], what, error), *value[1:])
    except ValueError as reason:
        raise error(f"{_titled(what)}: {reason}.") from None


def _titled(what: str) -> str:
    return f"{what[0].upper()}{what[1:]}"


def _array(given: Any, what: str, error: type[PiedError]) -> np.ndarray:
    """Return a tensor as an array, or say why that cannot be done."""
    try:
        return dense(given)
    except (RuntimeError, TypeError, NotImplementedError) as reason:
        kind = f"{str(given.dtype).removeprefix('torch.')} on {given.device}"
        raise error(f"{what[0].upper()}{what[1:]} came as a tensor of {kind} that cannot be read: {reason}") from None


def numbers(
    given: Any,
    places: Mapping[str, int],
    kind: str,
    error: type[PiedError],
    *,
    partial: bool = False,
    readers: Mapping[str, Reader] | None = None,
) -> list[float]:
    """Read one number for each name from a mapping, a sequence in order, or a single number if there is one name.

    Args:
        given: What the user gave or the black box returned.
        places: The names that are wanted, in order.
        kind: What they name, for messages: "variable" or "output".
        error: The error to raise.
        partial: Whether names may be missing from a mapping; they become NaN.
        readers: How the names are read that are no plain numbers, such as labels.
    """
    names, readers = list(places), readers or {}
    odd = WrongOutputs if error is EvaluationError else error
    if given is None:
        raise odd(f"Nothing came (None) instead of the {kind}s {listed(names)}: is a 'return' missing?")
    if isinstance(given, str | bytes | set | frozenset) and not (len(names) == 1 and names[0] in readers):
        raise odd(f"The {kind}s {listed(names)} should be a mapping by name or a sequence, got {given!r}.")
    if hasattr(given, "keys") and hasattr(given, "__getitem__"):
        return _by_name(given, places, kind, error, partial, readers)
    if is_tensor(given):
        given = _array(given, f"the {kind}s", error)
    if isinstance(given, np.ndarray) and given.ndim == 1:
        given = list(given)
    if isinstance(given, np.ndarray) and given.ndim > 1 and not given.size == len(names) == 1:
        raise odd(f"The {kind}s should be {len(names)} numbers in one row, got an array of shape {given.shape}.")
    if isinstance(given, Sequence):
        if len(given) != len(names):
            raise odd(f"{len(names)} {kind}s are expected ({listed(names)}), got {len(given)} values.")
        pairs = zip(names, given, strict=True)
        return [readers.get(name, number)(each, f"{kind} '{name}'", error) for name, each in pairs]
    if len(names) > 1:
        raise odd(f"{len(names)} {kind}s are expected ({listed(names)}), got one {type(given).__name__}.")
    return [readers.get(names[0], number)(given, f"{kind} '{names[0]}'", error)]


def answered(
    given: Any, places: Mapping[str, int], lods: Mapping[str, float] | None = None
) -> tuple[list[float], dict[str, str], list[str]]:
    """Read an answer of the black box: numbers as text and booleans count, and outputs may be missing.

    Returns:
        A value for each output, NaN where there is none; why, by output; and the names that are no outputs.

    Raises:
        EvaluationError: When no output has a value, or one cannot be read.
        WrongOutputs: When the answer cannot be the outputs, for instance because a name is misspelled.
    """
    names, gaps, ignored = list(places), dict[str, str](), list[str]()
    if hasattr(given, "keys") and hasattr(given, "__getitem__"):
        found = list(given.keys())
        ignored = [str(name) for name in found if name not in places]
        absent = [name for name in names if name not in found]
        for name in absent:
            if (near := closest(name, ignored)) is not None:
                raise WrongOutputs(f"'{near}' is not an output. Did you mean '{name}'?")
        if len(absent) == len(names):
            raise WrongOutputs(f"None of the outputs {listed(names)} is given.{did_you_mean(names[0], ignored)}")
        gaps = {name: f"Output '{name}' is missing." for name in absent}
        given = {name: given[name] for name in found if name in places}

    def read(value: Any, what: str, error: type[PiedError]) -> float:
        name = what.removeprefix("output '").removesuffix("'")
        number_or_gap = _lenient(value, what, error, (lods or {}).get(name))
        if isinstance(number_or_gap, float):
            return number_or_gap
        gaps[name] = number_or_gap
        return math.nan

    is_single = isinstance(given, str | bool | np.bool_) and len(names) == 1
    given = [given] if is_single else given
    values = numbers(given, places, "output", EvaluationError, partial=True, readers=dict.fromkeys(names, read))
    if len(gaps) == len(names):
        raise EvaluationError(" ".join(list(gaps.values())[:MOST_LISTED]))
    return values, {name: gaps[name] for name in names if name in gaps}, ignored


def _lenient(value: Any, what: str, error: type[PiedError], lod: float | None) -> float | str:
    """Read one number of an answer, or return why there is none."""
    title = f"{what[0].upper()}{what[1:]}"
    if is_tensor(value):
        value = _array(value, what, error)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(-1)[0]
    if isinstance(value, str | bytes):
        try:
            found = _limited(str(value), lod)
            value = (
                found
                if found is not None
                else (float(value) if parts(str(value)) is None else measured(value, what, error))
            )
        except ValueError:
            raise error(f"{title} should be a number, got {value!r}.") from None
    if isinstance(value, bool | np.bool_):
        value = float(value)
    if isinstance(value, Measured | tuple):
        return measured(value, what, error)
    if value is None:
        return f"{title} is None."
    if isinstance(value, complex | np.complexfloating):
        return number(value, what, error)
    try:
        is_nan, is_infinite = math.isnan(value), math.isinf(value)
    except (TypeError, ValueError, OverflowError):
        return number(value, what, error)
    if is_nan:
        return f"{title} is not a number (NaN)."
    if is_infinite:
        return f"{title} is infinite: is something divided by zero there?"
    return number(value, what, error)


def _by_name(
    given: Any,
    places: Mapping[str, int],
    kind: str,
    error: type[PiedError],
    partial: bool,
    readers: Mapping[str, Reader],
) -> list[float]:
    """Read one number for each name from a mapping."""
    found = dict.fromkeys(places, math.nan)
    odd = WrongOutputs if error is EvaluationError else error
    for name in given.keys():  # noqa: SIM118 - an object with keys may iterate over something else
        if name not in found:
            raise odd(f"'{name}' is not {with_article(kind)}.{did_you_mean(str(name), places)}")
        found[name] = readers.get(name, number)(given[name], f"{kind} '{name}'", error)
    missing = [name for name, value in found.items() if not is_known(value)]
    if missing and not partial:
        raise odd(f"The {kind} {listed(missing)} is missing: give all of {listed(list(places))}.")
    if len(missing) == len(places) and not any(name in given.keys() for name in places):  # noqa: SIM118
        raise odd(f"None of the {kind}s {listed(missing)} is given.")
    return list(found.values())


def listed(names: Sequence[str]) -> str:
    """Return names for a message, the first few of many."""
    shown = ", ".join(f"'{name}'" for name in names[:MOST_LISTED])
    return shown + (", ..." if len(names) > MOST_LISTED else "")


def with_article(kind: str) -> str:
    """Return a word with its article."""
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
