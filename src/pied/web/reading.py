"""What a request says: JSON and numbers of trials, checked before anything else looks at them."""

import json
import math
from typing import Any

from pied.web.guard import Unread
from pied.web.limits import DEEPEST, LONGEST_NUMBER, LONGEST_TEXT, MOST_VALUES


class Refused(Unread):
    """A request that cannot be answered, with its status."""


def trial_number(text: str) -> int:
    """Return the number of a trial as it stands in an address."""
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER:
        raise Refused(404, f"there is no such trial: its number has 1 to {LONGEST_NUMBER} digits")
    return int(text)


def json_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; its texts can be written everywhere and its numbers computed with."""
    try:
        given = json.loads(content or b"{}", parse_constant=_no_constant, parse_int=_whole, parse_float=_finite)
    except RecursionError:
        raise Refused(400, f"this is nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise Refused(400, f"this is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise Refused(400, "a JSON object is expected")
    _check(given)
    return given


def _check(given: dict[str, Any]) -> None:
    """Refuse what is too long, too deep, or no text."""
    level: list[Any] = [given]
    count = 0
    for _ in range(DEEPEST + 1):
        count += len(level)
        if count > MOST_VALUES:
            raise Refused(413, f"a request has at most {MOST_VALUES:,} names and values")
        below: list[Any] = []
        for each in level:
            if isinstance(each, str):
                _check_text(each)
            elif isinstance(each, dict):
                below += [*each, *each.values()]
            elif isinstance(each, list):
                below += each
        level = below
    if level:
        raise Refused(400, f"this is nested deeper than {DEEPEST} levels")


def _check_text(text: str) -> None:
    if len(text) > LONGEST_TEXT:
        raise Refused(413, f"'{text[:20]}...' has {len(text):,} characters: a text has at most {LONGEST_TEXT:,}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Refused(400, "a text has half of a character (a lone surrogate): send it as UTF-8") from None


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a number: leave it out")


def _whole(word: str) -> int:
    _finite(word)  # first: Python does not read thousands of digits
    return int(word)


def _finite(word: str) -> float:
    value = float(word)
    if not math.isfinite(value):
        raise Refused(400, f"{word[:20]}{'...' * (len(word) > 20)} is too large for a number")
    return value
