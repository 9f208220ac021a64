"""Texts and data in a form that every database can store, and the key of a question."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from pied.measured import Measured

_MEASURED = ("value", "deviation", "n")
"""A number with its error, as JSON."""
_LIMITED = ("limit", "side")
"""A value that lies below (-1) or above (1) a limit."""
LONGEST_NAME = 200
"""Characters of a person's name that are kept."""
LONGEST_REASON = 4000
"""Characters of a failure's text that are kept: its beginning and end, where programs report the cause."""


def cleaned(text: str) -> str:
    """Make a text storable in every database: no NUL, no lone surrogates, at most `LONGEST_REASON` characters."""
    if len(text) > LONGEST_REASON:
        half = LONGEST_REASON // 2 - 50
        left_out = len(text) - 2 * half
        text = f"{text[:half]} ... ({left_out} characters left out) ... {text[-half:]}"
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


def cleaned_name(name: object) -> str:
    """Return a person's name as it is stored: on one line, storable like every text, not longer than `LONGEST_NAME`."""
    return cleaned(" ".join(str(name).split()))[:LONGEST_NAME]


def key(statement: Mapping[str, Any]) -> str:
    """Return a text that is equal for equal questions; how things are called, computed or read does not count."""
    others = ("blackbox", "called", "unit", "units", "lods")
    asked = {name: value for name, value in statement.items() if name not in others}
    return hashlib.sha256(json.dumps(to_plain(asked), sort_keys=True).encode()).hexdigest()[:32]


def to_plain(data: Any) -> Any:
    """Convert data for JSON without loss: NaN becomes `{"float": "nan"}`, a number with an error an object, too."""
    if isinstance(data, Measured) and data.side:
        return dict(zip(_LIMITED, (data.said, data.side), strict=True))
    if isinstance(data, Measured):
        return dict(zip(_MEASURED, (float(data), data.deviation, data.count), strict=True))
    if isinstance(data, float) and not math.isfinite(data):
        return {"float": repr(data)}
    if isinstance(data, Mapping):
        return {str(name): to_plain(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [to_plain(each) for each in data]
    return data


def from_plain(data: Any) -> Any:
    """Undo `to_plain`; tuples come back as lists."""
    if isinstance(data, dict):
        if data.keys() == {"float"} and isinstance(data["float"], str):
            return float(data["float"])
        if tuple(data) == _MEASURED and all(isinstance(each, int | float) for each in data.values()):
            return Measured(*data.values())
        if tuple(data) == _LIMITED and data["side"] in (-1, 1):
            return Measured(data["limit"], side=data["side"])
        return {name: from_plain(value) for name, value in data.items()}
    return [from_plain(each) for each in data] if isinstance(data, list) else data
