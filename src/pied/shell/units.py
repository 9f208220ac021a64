"""Units as people write them into headings, and how to convert between those of one kind."""

import re
from typing import NamedTuple


class Unit(NamedTuple):
    """What one of a unit is in basic units of its kind: scale * value + offset."""

    kind: tuple[str, ...]
    """Kinds above and below the line, those below with a minus."""
    scale: float
    offset: float = 0.0


_SCALES: dict[str, dict[str, float]] = {
    "time": {"s": 1, "sec": 1, "ms": 1e-3, "min": 60, "h": 3600, "hr": 3600, "std": 3600, "d": 86400},
    "mass": {"kg": 1e3, "g": 1, "mg": 1e-3, "ug": 1e-6, "µg": 1e-6, "t": 1e6, "lb": 453.59237},
    "volume": {"l": 1, "ml": 1e-3, "ul": 1e-6, "µl": 1e-6, "m3": 1e3, "cm3": 1e-3, "dl": 0.1},
    "amount": {"mol": 1, "mmol": 1e-3, "umol": 1e-6, "µmol": 1e-6, "kmol": 1e3},
    "length": {"m": 1, "cm": 1e-2, "mm": 1e-3, "um": 1e-6, "µm": 1e-6, "nm": 1e-9},
    "pressure": {
        "pa": 1, "hpa": 100, "kpa": 1e3, "mpa": 1e6, "bar": 1e5, "mbar": 100, "atm": 101325, "psi": 6894.757293168,
    },
    "share": {"%": 0.01, "wt%": 0.01, "vol%": 0.01, "mol%": 0.01, "1": 1, "ppm": 1e-6, "-": 1},
    "energy": {"j": 1, "kj": 1e3, "mj": 1e6, "kwh": 3.6e6, "wh": 3600},
    "power": {"w": 1, "kw": 1e3, "mw": 1e6},
    "current": {"a": 1, "ma": 1e-3},
    "voltage": {"v": 1, "mv": 1e-3, "kv": 1e3},
    "turns": {"rpm": 1, "1/min": 1, "hz": 60, "1/s": 60},
}  # fmt: skip
"""Words without capitals; those that mean two things with them are in `_EXACT`."""
_EXACT = {"MPa": ("pressure", 1e6), "mPa": ("pressure", 1e-3), "MW": ("power", 1e6), "mW": ("power", 1e-3),
          "MJ": ("energy", 1e6), "mJ": ("energy", 1e-3)}  # fmt: skip
_TEMPERATURES = {
    "k": (1.0, 0.0), "kelvin": (1.0, 0.0), "c": (1.0, 273.15), "degc": (1.0, 273.15), "celsius": (1.0, 273.15),
    "f": (5 / 9, 459.67 * 5 / 9), "degf": (5 / 9, 459.67 * 5 / 9), "fahrenheit": (5 / 9, 459.67 * 5 / 9),
}  # fmt: skip
_MOLAR = {"M": 1.0, "mM": 1e-3, "uM": 1e-6, "µM": 1e-6}


def plain(text: str) -> str:
    """Return a unit in one way of writing: °C is degC, m³ is m3, µ the Greek letter's compatible form."""
    made = text.strip().replace("°", "deg").replace("º", "deg").replace("μ", "µ").replace("³", "3").replace("²", "2")
    return re.sub(r"\s+", "", made)


def read(text: str) -> Unit | None:
    """Read a unit; None of one that is not known."""
    word = plain(text)
    if word in _MOLAR:
        return Unit(("amount", "-volume"), _MOLAR[word])
    if (found := _TEMPERATURES.get(word.casefold())) is not None:
        return Unit(("temperature",), *found)
    parts = [_simple(word)] if _simple(word) else [_simple(each) for each in word.split("/")]
    if any(each is None for each in parts):
        return None
    kinds, scale = list[str](), 1.0
    for place, each in enumerate(parts):
        kind, size = each or ("", 1.0)
        kinds.append(f"-{kind}" if place else kind)
        scale = scale / size if place else scale * size
    return Unit(tuple(sorted(kinds)), scale)


def _simple(word: str) -> tuple[str, float] | None:
    if word in _EXACT:
        return _EXACT[word]
    return next(((kind, own[word.casefold()]) for kind, own in _SCALES.items() if word.casefold() in own), None)


def are_same(one: str, other: str) -> bool:
    """Whether two texts write the same unit."""
    first, second = read(one), read(other)
    return first == second if first and second else plain(one).casefold() == plain(other).casefold()


def converter(given: str, wanted: str) -> tuple[float, float] | None:
    """Return scale and offset that take a value from one unit to another; None if they are not of one kind."""
    first, second = read(given), read(wanted)
    if first is None or second is None or sorted(first.kind) != sorted(second.kind):
        return None
    return first.scale / second.scale, (first.offset - second.offset) / second.scale
