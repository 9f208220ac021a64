"""Addresses of stores as they may be shown: without their passwords."""

import re
from collections.abc import Iterable

MASK = "***"
"""What stands in place of a password."""
SHORTEST_SECRET = 3
"""Characters of a password that is looked for by itself: a shorter one would be found inside of other words."""

_START = r"((?:\b[a-z][a-z0-9+.-]*)?://[^\s:/?#]*:)"
# A password ends at the last @ before the query. One with a plain question mark in it ends at the last @ of all.
_ALONE = re.compile(rf"\A\s*{_START}(?:[^?]*|.*)@", re.IGNORECASE | re.DOTALL)
_QUOTED = re.compile(rf"{_START}(?:[^\s?]*|\S*)@", re.IGNORECASE)
_WORD = re.compile(
    r"\b(\w*(?:password|passwd|passphrase)|pwd)(\s*=\s*)('(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s&;'\"]+)", re.IGNORECASE
)


def masked(text: str, secrets: Iterable[str | None] = ()) -> str:
    """Return a text with the passwords of addresses in it hidden: user:PASSWORD@host, ?password=, ?sslpassword=.

    Args:
        text: An address, or a sentence that may quote one.
        secrets: Passwords that are known, hidden wherever they stand.
    """
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
    is_address = _ALONE.match(text) is not None and "\n" not in text and not re.search(r"@.*\s", text)
    text = _ALONE.sub(rf"\1{MASK}@", text) if is_address else _QUOTED.sub(rf"\1{MASK}@", text)
    return _WORD.sub(rf"\1\2{MASK}", text)
